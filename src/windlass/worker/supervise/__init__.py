"""An attempt's supervisor, which starts the process, watches it and records its end."""
