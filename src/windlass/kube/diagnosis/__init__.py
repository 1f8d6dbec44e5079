"""Explains why a pod does not run: scheduling, images, containers, unknown fields."""
