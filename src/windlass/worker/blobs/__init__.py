"""Scans and hashes files, writes them to the blob store, and restores them as a tree."""
