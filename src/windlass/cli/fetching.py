"""What the commands that write files to a folder say of it."""

from __future__ import annotations

import os
from pathlib import Path


def say_packaged(place: str | os.PathLike[str]) -> None:
    """Say that a folder in this one goes into what is packaged here, and how it does not."""
    from windlass.cli.text import clean, say

    inside = os.path.relpath(os.path.realpath(place))
    if inside.partition(os.sep)[0] in (os.curdir, os.pardir):
        return
    line = f"/{inside.replace(os.sep, '/')}/"
    if line not in _ignored():
        unless = f"unless .windlassignore has a line: {clean(line)}"
        say(f"It is packaged with what you run here, {unless}")


def _ignored() -> list[str]:
    try:
        return Path(".windlassignore").read_text(errors="replace").splitlines()
    except OSError:
        return []
