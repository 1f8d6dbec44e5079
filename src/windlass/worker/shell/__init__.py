"""Shells: the pseudo-terminal, its input pipe, its output and its start-up files."""
