"""Prepares a trial on the user's machine, with its code, its pickled function and its packages.

This code runs in the user's process, so functions import heavy modules only when necessary. May
import `model` and `worker`. The server imports only `manifest.py` of this package. The package
never connects to the server and never unpickles anything.
"""
