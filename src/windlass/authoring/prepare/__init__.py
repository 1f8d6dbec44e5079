"""Converts a job, with its options, code and arguments, to the request for a new trial."""
