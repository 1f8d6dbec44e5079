"""Packs the code, the function and the package list of a trial on the user's machine.

This code runs in the user's process, so functions import heavy modules only when necessary. May
import `model` and `worker`. The server imports only `manifest.py` of this package. The package
never connects to the server and never unpickles anything.
"""
