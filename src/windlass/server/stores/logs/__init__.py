"""Logs: the segments that attempts write, merged in order of time, paged and searched.

`base.py` is the protocol that the rest of the server uses and `files.py` its implementation in
files. The other modules serve `files.py`, except `cursors.py` and `pattern.py`, which serve both.
"""
