"""This machine: its capacity, and the options of jobs that it does not support.

The runtime and the server read it to run jobs here, and a dry run reads it without running
anything. Imports `model` only.
"""
