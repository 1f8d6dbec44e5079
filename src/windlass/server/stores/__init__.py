"""Stores keep all data of the server, in database rows and in files, with one noun per module.

A store only reads and writes. The one exception is the rule about which checkpoints are kept
(`checkpoints/retention.py`). The package may import `server.db` and `server.errors`, never `web`,
`operations` or `api`.
"""
