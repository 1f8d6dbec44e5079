"""What leaves the user's machine with a call: the code, the call itself, and where it came from.

Snapshots of the source tree, pickled calls, locks for `packages=`, and the record of who ran
what. Runs in the user's process, so heavy imports happen inside the functions that need them.
May import `model` and `worker`; `manifest.py` is plain enough for the server to import.
Never talks to the server and never unpickles anything.
"""
