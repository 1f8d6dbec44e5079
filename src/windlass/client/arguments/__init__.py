"""Checks the arguments of SDK calls, such as names, times and timeouts, before any request."""
