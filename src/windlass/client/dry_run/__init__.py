"""Dry runs: the real preparation of a job, up to the request, which is shown and not sent."""
