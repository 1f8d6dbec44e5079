"""Blobs: contents named by their digest.

`base.py` is the protocol that the rest of the server uses and `files.py` its implementation in
files. `upload.py` receives a file, `disk_space.py` keeps space free, and `garbage.py` deletes
unused blobs.
"""
