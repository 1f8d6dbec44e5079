"""The side of the user's process: the call, its value or failure, `wl.report`, checkpoints."""
