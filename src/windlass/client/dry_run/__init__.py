"""Dry runs, which prepare a job completely, and print the request instead of sending it."""
