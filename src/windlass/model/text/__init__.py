"""Texts that people read or write: names, durations, sizes, times, and text for a terminal."""
