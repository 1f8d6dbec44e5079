"""Pure functions that decide a job's next actions and which waiting jobs can start.

`decide` handles one job at a time, and `admit` handles the queue of all jobs. Every other file is
named after the rule that it contains. The engine may import only `model`. The engine never reads a
clock, does I/O, draws a random number, or depends on the order of a map. The same input therefore
always gives the same decision.
"""

from windlass.engine.admission import Admission, Allocation, Demand, WaitingJob, admit, demand_of
from windlass.engine.decide import decide
from windlass.engine.decision import Decision
from windlass.engine.wait_reasons import explain, impossible, lacking

__all__ = [
    "Admission",
    "Allocation",
    "Decision",
    "Demand",
    "WaitingJob",
    "admit",
    "decide",
    "demand_of",
    "explain",
    "impossible",
    "lacking",
]
