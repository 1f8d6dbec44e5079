"""Reads and searches the logs of trials."""
