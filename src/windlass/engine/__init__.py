"""Decisions: pure functions from specification, status and observed replicas to the next actions.

`decide` serves one job at a time, `admit` the queue of all jobs; every other file is named after
the rule it contains. May import `model` only. Never reads a clock, does I/O, draws a random number
or depends on the order of a map: the same input gives the same decision.
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
