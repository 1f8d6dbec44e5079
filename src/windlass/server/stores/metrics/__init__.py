"""Metrics: read from the files of attempts, and kept as chunks, summaries and curves.

The rest of the server uses the protocol in `base.py`, which `files.py` implements with files.
`reader.py` is the thread that reads new reports. All other modules serve these two.
"""
