"""The commands of `windlass`, one module each, loaded when the command is called.

Each folder has the commands below one heading of `windlass --help`, as `FOLDERS` of `cli/root.py`
lists them. A command imports `options` and `output`, and seldom another command.
"""
