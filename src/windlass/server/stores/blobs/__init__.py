"""Blobs: contents named by their digest.

`base.py` is the protocol that the rest of the server uses and `files.py` its implementation in
files. `pack_uploads.py` receives many blobs and `upload.py` one large file, `disk_space.py` keeps
space free, and `garbage.py` deletes unused blobs.
"""
