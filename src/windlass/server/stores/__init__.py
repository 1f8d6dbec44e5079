"""Stores, which keep the server's data in database rows and files. Each module covers one noun.

A store only reads and writes. The only exception is the rule that decides which checkpoints are
kept (`checkpoints/retention.py`). The package may import `server.db` and `server.errors` but never
`web`, `operations` or `api`.
"""
