"""Packaging of a call on the user's machine: the code, the pickled call, and its provenance.

Contains snapshots of the source tree, pickled calls, locks for `packages=`, and provenance. Runs in
the user's process, so heavy imports happen inside the functions that need them. May import `model`
and `worker`; `manifest.py` is simple enough for the server to import. Never connects to the server
and never unpickles anything.
"""
