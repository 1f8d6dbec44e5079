"""Compares two trials or two experiments, and builds tables of many trials.

The comparison covers code, arguments, environment, resources and metrics. All functions are pure.
The caller downloads the files that they need. Imports `model` only.
"""
