"""Trials: their rows, their parameters, the cache of recent trials, and list queries."""
