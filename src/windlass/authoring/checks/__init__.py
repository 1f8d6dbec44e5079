"""Checks of jobs and options before submission. Each error message says how to fix the problem."""
