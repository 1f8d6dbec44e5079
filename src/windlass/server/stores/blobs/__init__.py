"""Blobs, which are contents named by their digest.

The rest of the server uses the protocol in `base.py`, which `files.py` implements with files.
`pack_uploads.py` receives many blobs and `upload.py` one large file. `disk_space.py` keeps disk
space free, and `garbage.py` deletes unused blobs.
"""
