"""Prints a note after a command has written files into the current project."""

from __future__ import annotations

import os
from pathlib import Path


def print_packaging_note(folder: str | os.PathLike[str]) -> None:
    """Print a note if a downloaded folder is inside the current project.

    The note says that later snapshots will include the folder, and how to exclude it.
    """
    from windlass.cli.output.text import clean, print_message

    inside = os.path.relpath(os.path.realpath(folder))
    if inside.partition(os.sep)[0] in (os.curdir, os.pardir):
        return
    line = f"/{inside.replace(os.sep, '/')}/"
    if line not in _ignored():
        unless = f"unless .windlassignore has a line: {clean(line)}"
        print_message(f"It becomes part of the code that you run here, {unless}")


def _ignored() -> list[str]:
    try:
        return Path(".windlassignore").read_text(errors="replace").splitlines()
    except OSError:
        return []
