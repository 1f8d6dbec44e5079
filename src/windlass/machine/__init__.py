"""The capacity of this machine, and the job options that this machine does not support.

The runtime and the server use this package to run jobs on this machine. A dry run uses it without
running anything. Imports `model` only.
"""
