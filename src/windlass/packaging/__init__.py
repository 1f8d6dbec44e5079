"""Prepares a trial on the user's machine: code snapshot, pickled call, packages, provenance.

Runs in the user's process, so functions import heavy modules only when they need them. May import
`model` and `worker`. Only `manifest.py` is also imported by the server. This package never connects
to the server and never unpickles anything.
"""
