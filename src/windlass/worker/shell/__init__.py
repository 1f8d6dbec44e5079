"""Shells in trials: the pseudo-terminal, its input pipe, its output, and start-up files."""
