"""Reruns of trials, unchanged or with changes."""
