"""Attempts that run in pods: their index, their state, and why their pods are pending."""
