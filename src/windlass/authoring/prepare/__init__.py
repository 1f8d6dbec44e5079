"""Converts a job to the request for a new trial, with its options, code and arguments."""
