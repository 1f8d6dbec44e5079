"""Accelerators, TPU sizes, and the resources of replicas and machines."""
