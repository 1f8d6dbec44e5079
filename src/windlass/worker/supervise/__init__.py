"""The supervisor of an attempt, which starts the process, watches it and records its end."""
