"""Blob files: scan and hash files, write them to the blob store, and restore them as a tree."""
