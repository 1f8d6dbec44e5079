"""Trials: rows, parameters, the cache of recent trials, and list queries."""
