"""Pods and services of the operator's jobs. May import `jobs`."""
