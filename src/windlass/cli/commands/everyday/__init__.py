"""Everyday commands, which run, list, inspect and stop trials."""
