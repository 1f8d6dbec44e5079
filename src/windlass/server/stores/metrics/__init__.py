"""Metrics: read from the files of attempts, kept as chunks, summaries and curves.

`base.py` is the protocol that the rest of the server uses and `files.py` its implementation in
files. `reader.py` is the thread that reads new reports. The other modules serve these two.
"""
