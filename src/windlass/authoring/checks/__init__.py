"""Checks of jobs and options before submission. Each error says how to fix the problem."""
