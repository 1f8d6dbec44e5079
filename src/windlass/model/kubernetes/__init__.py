"""Kubernetes options of a role and of its pod."""
