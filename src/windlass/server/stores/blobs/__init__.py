"""Blobs: byte sequences that are named by their digest.

The rest of the server uses the protocol in `base.py`, which `files.py` implements with files.
`pack_uploads.py` receives packs of many blobs, and `upload.py` receives single large files.
`disk_space.py` keeps disk space free, and `garbage.py` deletes unused blobs.
"""
