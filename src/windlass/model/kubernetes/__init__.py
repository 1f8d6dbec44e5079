"""Kubernetes in the description of a job: options of a role and of its pod."""
