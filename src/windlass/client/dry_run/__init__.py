"""Dry runs, which prepare a job completely but print the request instead of sending it."""
