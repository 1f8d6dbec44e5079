"""The commands of `windlass`, one module each, loaded when the command is called."""
