"""Manages the pods and services of the operator's jobs. This package may import `jobs`."""
