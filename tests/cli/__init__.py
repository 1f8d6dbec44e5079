"""Tests of the command line, through the installed `windlass` as a user types it.

A package, so that its `conftest` and its modules do not shadow those of other folders.
"""
