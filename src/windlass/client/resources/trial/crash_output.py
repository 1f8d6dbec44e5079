"""Reads what Python's faulthandler prints when C code crashes."""

from __future__ import annotations

import re
from collections.abc import Sequence

MOST_LINES = 400  # of a log's end, because faulthandler prints the stacks of all threads
CRASHES = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE")

_FATAL = "Fatal Python error: "
_FRAME = re.compile(r'  File "(.+)", line (\d+) in (.+)')
_OUR_FOLDER = "/windlass/worker/"
_OF_LIBRARIES = re.compile(r"/site-packages/|/lib/python3[\d.]*/|^<")
_WORK = re.compile(r"^.*/trials/\d+/[^/]+/work/")


def crash_lines(lines: Sequence[str]) -> list[str]:
    """Return the error and the crashed thread's stack, or [] if Python printed none.

    Windlass frames are left out.

    >>> crash_lines(["Fatal Python error: Aborted", "", "Thread 0x1 (most recent call first):",
    ...     '  File "/a.py", line 9 in wait', "", "Current thread 0x2 (most recent call first):",
    ...     '  File "/b.py", line 3 in train', '  File "/x/windlass/worker/a.py", line 7 in main',
    ...     "", "Extension modules: numpy"])  # fmt: skip
    ['Fatal Python error: Aborted', '  File "/b.py", line 3 in train']
    """
    starts = [number for number, line in enumerate(lines) if line.startswith(_FATAL)]
    if not starts:
        return []
    kept = [lines[starts[-1]]]
    is_current = True
    for line in lines[starts[-1] + 1 :]:
        if line.startswith("Thread 0x"):
            is_current = False
        elif line.startswith("Current thread 0x"):
            is_current = True
        elif is_current and line.startswith("  ") and _OUR_FOLDER not in line:
            kept.append(line)
    return kept


def describe_crash(text: str) -> str:
    r"""Return in a few words what crashed and where, or "" if the text shows no crash.

    The location is in the user's own code, if the stack contains any.

    >>> describe_crash('Fatal Python error: Aborted\n  File "/home/ada/b.py", line 3 in train')
    'Aborted at /home/ada/b.py:3 in train'
    """
    kept = crash_lines(text.splitlines())
    if not kept:
        return ""
    what = kept[0].removeprefix(_FATAL)
    frames = [match for line in kept if (match := _FRAME.match(line))]
    own = [frame for frame in frames if not _OF_LIBRARIES.search(frame[1])]
    for frame in (*own, *frames):
        path = _WORK.sub("", frame[1])
        return f"{what} at {path}:{frame[2]} in {frame[3]}"
    return what
