"""Compares trials and experiments, and builds tables of trials.

The comparison covers code, arguments, environment, resources and metrics. All functions are pure:
the caller downloads the files that they need. This package imports only `model`.
"""
