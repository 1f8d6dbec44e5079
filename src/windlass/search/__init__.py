"""Hyper-parameter search: spaces, the loop that adds trials and ends bad ones, what came of it.

Optuna decides what is tried next and what is not worth going on with. The trials themselves are
the memory: a search is taken up again from what the server has recorded. Never imported by the
server; Optuna is loaded when a search begins.
"""
