"""Translates TFJob and PyTorchJob objects into jobs, and stores the jobs' status.

This package imports nothing from `pods`.
"""
