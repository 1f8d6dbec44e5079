"""This machine: what it has to give, and what of a job it cannot honour.

Read by the runtime and the server that run jobs here, and by a dry run, which runs nothing.
Imports `model` only.
"""
