"""Comparison of trials and of experiments: pure functions of their records.

Compares code line by line, arguments, environment, resources and metrics, and builds tables of many
trials. Imports `model` only: the caller provides the trees, files and package lists.
"""
