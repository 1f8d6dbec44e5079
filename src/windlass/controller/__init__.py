"""The reconcile loop: observes a job, lets the engine decide, stores the result, and acts.

Contains the work queue, expectations, the admission queue and the controller, which the server and
the operator share. May import `model`, `engine` and `runtimes.base`. The engine makes all decisions
about jobs. The controller never sleeps: it waits on a condition with an injected clock.
"""

from windlass.controller.admission import AdmissionQueue
from windlass.controller.clock import Clock, SystemClock
from windlass.controller.controller import Controller
from windlass.controller.expectations import Expectations
from windlass.controller.queue import WorkQueue
from windlass.controller.store import JobStore

__all__ = [
    "AdmissionQueue",
    "Clock",
    "Controller",
    "Expectations",
    "JobStore",
    "SystemClock",
    "WorkQueue",
]
