"""Blob files: scan and hash files, write them into the blob store, restore them as a tree."""
