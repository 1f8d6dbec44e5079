"""Hyper-parameter search, which adds trials to an experiment and stops bad ones early.

Optuna decides which parameters to try next and which trials to stop early. A search keeps no state
except the recorded trials, so it can resume from the server's records. The server never imports
this package. Optuna is not imported until a search starts.
"""
