"""The loop: wakes up, looks, asks the engine, stores the answer, has a runtime carry it out.

A work queue, expectations, the admission queue and the loop itself, the same for the server and
for any other host. May import `model` and `engine`, and of `runtimes` the protocol's type alone.
Never decides anything about a job itself, and never sleeps: it waits on a condition with a clock
that tests can hold.
"""

from windlass.controller.admission import AdmissionQueue
from windlass.controller.clock import Clock, SystemClock
from windlass.controller.expectations import Expectations
from windlass.controller.loop import Controller
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
