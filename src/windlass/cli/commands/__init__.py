"""The commands of `windlass`. Each command is a module that is loaded only when it runs.

Each folder contains the commands under one heading of `windlass --help`. `FOLDERS` in `cli/root.py`
lists the folders. A command module imports `options` and `output`, and rarely another command.
"""
