"""Checkpoints: their database rows, imported from records that programs write, and retention."""
