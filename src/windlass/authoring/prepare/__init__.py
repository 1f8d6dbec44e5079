"""Converts a job to the request for a new trial: options, code, arguments, overrides."""
