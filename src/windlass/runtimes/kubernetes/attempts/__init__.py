"""Attempts in pods: the index of running ones, their observation, and why a pod is pending."""
