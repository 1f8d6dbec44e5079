"""Runs shells in trials, with a pseudo-terminal, an input pipe and stored output."""
