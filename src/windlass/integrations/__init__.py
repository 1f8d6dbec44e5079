"""Callbacks and profilers for training frameworks.

May import `worker` only: each integration is a few lines over functions that any program can call
in a trial. A framework is imported only when one of its integrations is used.
"""

from windlass.integrations import callbacks as callbacks
from windlass.integrations import profiling as profiling
