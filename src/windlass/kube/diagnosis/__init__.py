"""Explains why a pod does not run.

The cause may be its scheduling, its image, a container, or an unknown field.
"""
