"""Checkpoints: database rows made from the records that programs write, and the retention rules."""
