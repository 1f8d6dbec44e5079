"""Stores keep all data of the server, in rows and in files, one noun per module or folder.

A store reads and writes; the one rule in it is which checkpoints are kept
(`checkpoints/retention.py`). May import `server.db` and `server.errors`, never `web`, `operations`
or `api`.
"""
