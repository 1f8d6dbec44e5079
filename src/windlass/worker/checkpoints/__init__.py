"""Saves and restores a trial's checkpoints on disk.

The modules handle checkpoint records, sharded saves, and copies that programs can change.
"""
