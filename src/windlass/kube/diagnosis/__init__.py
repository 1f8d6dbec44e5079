"""Explains why a pod does not run.

The cause may be the pod's scheduling, its image, a container, or an unknown field.
"""
