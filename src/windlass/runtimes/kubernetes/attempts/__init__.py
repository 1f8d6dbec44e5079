"""Attempts in pods: an index of attempts, their observation, and the reasons for pending pods."""
