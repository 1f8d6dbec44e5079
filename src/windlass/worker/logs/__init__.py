"""Writes the output of an attempt to log segments, and reads log segments."""
