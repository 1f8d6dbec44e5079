"""The contents of a database file, to compare before and after an upgrade."""

from __future__ import annotations

import re
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

_NOW = re.compile(r"\b(\d{10}\.\d+|\d\.\d+e\+09)\b")  # either form, depending on the SQLite


def contents_of(path: Path) -> list[str]:
    """Return all tables, indexes and rows as statements, without the times of an upgrade.

    This reads a copy, so that the files which a killed process left stay for the next server.
    """
    with tempfile.TemporaryDirectory() as folder:
        for file in path.parent.glob(f"{path.name}*"):
            shutil.copy(file, folder)
        with closing(sqlite3.connect(Path(folder, path.name))) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            return [_NOW.sub("now", line) for line in connection.iterdump()]
