"""The command line, through the installed `windlass` as a user types it.

A package, so that its `conftest` and its files never stand for those of other folders.
"""
