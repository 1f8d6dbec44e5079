"""Callbacks and profilers for the frameworks people train with.

May import `worker` alone of ours: each is a few lines over what any program can call in a trial.
A framework is imported when something of it is asked for, and never by us before.
"""

from windlass.integrations import callbacks as callbacks
from windlass.integrations import profiling as profiling
