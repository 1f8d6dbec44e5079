"""Metrics: read from the attempts' files and kept as chunks, summaries and curves.

The rest of the server uses the protocol in `base.py`, which `files.py` implements with files.
`reader.py` contains the thread that reads new reports. All other modules support `files.py` and
`reader.py`.
"""
