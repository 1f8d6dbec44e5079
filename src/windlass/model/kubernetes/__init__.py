"""Kubernetes options for a role and its pods."""
