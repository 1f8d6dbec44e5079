"""Checkpoints on disk: their records, parts saved by several ranks, and copies of them."""
