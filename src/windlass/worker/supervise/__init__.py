"""The supervisor of an attempt: starts its process, watches it, and writes how it ended."""
