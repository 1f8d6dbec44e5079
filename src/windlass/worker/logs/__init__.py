"""Writes an attempt's output to log segments, and reads log segments."""
