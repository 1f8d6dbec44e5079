"""Finds the type of the Python exception that ended a program, and the line that raised it."""

from __future__ import annotations

import os
import re

from windlass.worker.common.file_reads import read_json
from windlass.worker.logs.segment import STDERR, read_parts

_TAIL = 64 * 1024
_HEAD = "Traceback (most recent call last):"
_FRAME = re.compile(r'^ +(?:\| *)?File "(.+)", line (\d+)')
_TYPE = re.compile(r"^[A-Za-z_][\w.]*(?=:|$)")


def find_exception(attempt_dir: str, work: str) -> str:
    """Return the exception that ended a program, or "" if the program printed no traceback.

    A function's exception is read from a file. Any other Python program's exception is the last
    traceback in its log. `work` is the folder with the program's code.
    """
    try:
        report = read_json(os.path.join(attempt_dir, "error.json"))
        text = str(report.get("traceback", "")) if report else _stderr_tail(attempt_dir)
    except OSError:
        return ""
    return parse_traceback(text, work)


def parse_traceback(text: str, work: str = "") -> str:
    r"""Return the type and line of the last traceback in a text.

    >>> parse_traceback(
    ...     "Traceback (most recent call last):\n"
    ...     '  File "/work/train.py", line 7, in <module>\n'
    ...     "    load()\n"
    ...     "FileNotFoundError: data.csv\n",
    ...     "/work",
    ... )
    'FileNotFoundError at train.py:7'
    >>> parse_traceback("no such file")
    ''
    """
    lines = text[max(text.rfind(_HEAD), 0) :].splitlines()
    if not lines or lines[0] != _HEAD:
        return ""
    place = ""
    for line in lines[1:]:
        if frame := _FRAME.match(line):
            path = frame[1]
            if work and path.startswith(work + os.sep):
                path = path[len(work) + 1 :]
            place = f"{path}:{frame[2]}"
        elif match := _TYPE.match(line):
            return f"{match[0]} at {place}" if place else ""
    return ""


def _stderr_tail(attempt_dir: str) -> str:
    """Return the end of the text that an attempt's program wrote to stderr."""
    with open(os.path.join(attempt_dir, "log"), "rb") as log:
        size = log.seek(0, os.SEEK_END)
        log.seek(max(0, size - _TAIL))
        data = log.read(_TAIL)
    pieces = []
    for _, stream, text, has_end, _ in read_parts(data):
        if stream == STDERR:
            pieces.append(text + (b"\n" if has_end else b""))
    return b"".join(pieces).decode("utf-8", "replace")
