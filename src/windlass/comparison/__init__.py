"""Compares trials or experiments by their records.

Compares code line by line, arguments, environment, resources and metrics. Also builds tables of
many trials. All functions are pure. The caller downloads the file lists, files and package lists.
Imports `model` only.
"""
