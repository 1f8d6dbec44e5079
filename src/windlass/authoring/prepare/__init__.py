"""Converts a job to a draft of its submission: options, code, arguments, overrides."""
