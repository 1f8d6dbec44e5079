"""This machine: its capacity, and the options of jobs that it does not support.

Read by the runtime and the server that run jobs here, and by a dry run, which runs nothing.
Imports `model` only.
"""
