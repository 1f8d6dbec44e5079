"""Packs a trial's code, function and package list on the user's machine.

This code runs in the user's process, so functions import heavy modules only when necessary. It may
import `model` and `worker`. The server imports only `manifest.py` from this package. The package
never connects to the server and never unpickles anything.
"""
