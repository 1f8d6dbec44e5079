"""The controller, which observes a job, lets the engine decide, stores the result, and acts.

The server and the operator share this package. It contains the controller, its work queue, the
admission queue and the expectations. It may import `model`, `engine` and `runtimes.base`. The
engine makes all decisions about jobs. The controller never sleeps. Instead, it waits on a condition
variable with an injected clock.
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
