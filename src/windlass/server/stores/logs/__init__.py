"""Logs: read from the segments that attempts write, merged by time, paged and searched.

A segment is the log file of one attempt. The rest of the server uses the protocol in `base.py`,
which `files.py` implements with files. The modules `cursors.py` and `pattern.py` support both, and
all other modules support only `files.py`.
"""
