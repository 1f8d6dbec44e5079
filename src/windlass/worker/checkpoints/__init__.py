"""Saves and restores the checkpoints of a trial on disk.

The modules are for checkpoint records, sharded saves, and copies that programs may change.
"""
