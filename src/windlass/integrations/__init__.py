"""Callbacks for training frameworks, and a profiler for PyTorch.

Each integration is a thin layer over functions that any program in a trial can call. A framework is
imported only when one of its integrations is used. This package imports only `worker`.
"""

from windlass.integrations import callbacks as callbacks
from windlass.integrations import profiling as profiling
