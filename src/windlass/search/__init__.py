"""Hyper-parameter search: spaces, the loop that adds trials and stops bad ones, and the result.

Optuna decides what to try next and which trials to stop early. The recorded trials are the only
memory: a search resumes from the server's records. The server never imports this package. Optuna is
loaded when a search starts.
"""
