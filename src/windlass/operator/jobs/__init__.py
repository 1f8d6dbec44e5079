"""Translates TFJob and PyTorchJob objects into jobs, and stores the status of the jobs.

This package imports nothing from `pods`.
"""
