"""Databases as earlier versions left them, with rows in their tables."""

from __future__ import annotations

import re
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from windlass.server.migrations import HEAD
from windlass.server.migrations.migrate import migrate

EARLIER = [f"{number:04d}" for number in range(1, int(HEAD))]
SPEC = '{"roles":[{"executable":{"type":"process","argv":["true"]}}]}'

EXPERIMENT = {
    "id": 3,
    "project": "vision",
    "project_id": 1,
    "name": "mnist",
    "created": 1.0,
    "uid": "e" * 32,
    "notes": "0.3 diverges",
    "labels": b'["paper"]',
}
TRIAL = {
    "id": 7,
    "uid": "a" * 32,
    "experiment_id": 3,
    "name": "mnist",
    "state": "FAILED",
    "settled": 1,
    "created": 2.0,
    "started": 3.0,
    "ended": 4.0,
    "restarts": 1,
    "exit_code": 1,
    "signal": "",
    "reason": "ReplicaFailed",
    "message": "exit code 1",
    "priority": 5,
    "user": "ada",
    "params": b'{"lr":0.1,"model":{"depth":3},"name":"x"}',
    "spec": SPEC,
    "status": b"{}",
    "provenance": b'{"user":"ada"}',
    "labels": b'["baseline"]',
}
ATTEMPT = {
    "trial_id": 7,
    "role": "main",
    "index": 0,
    "attempt": 2,
    "phase": "Failed",
    "exit_code": 1,
    "reason": "",
    "message": "",
    "started": 3.0,
    "ended": 4.0,
    "node": "here",
    "address": "",
}
EVENT = {
    "trial_id": 7,
    "time": 2.0,
    "kind": "Normal",
    "reason": "Created",
    "message": "made",
}
SUMMARY = {
    "trial_id": 7,
    "name": "loss",
    "count": 4,
    "finite": 3,
    "total": 6.0,
    "min": 1.0,
    "max": 3.0,
    "last": 2.0,
    "step": 9,
    "time": 4.0,
}

_NOW = re.compile(r"\b(\d{10}\.\d+|\d\.\d+e\+09)\b")  # as the SQLite that there is writes it


def make_database(path: Path, revision: str) -> None:
    """Write the database of an earlier version, as a server of it leaves it."""
    migrate(path, to=revision)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        with connection:
            _fill(connection)


def contents_of(path: Path) -> list[str]:
    """All that a database holds: tables, indexes and rows; the times of an upgrade aside.

    A copy is looked at: what a killed process left beside the file stays for who opens it next.
    """
    with tempfile.TemporaryDirectory() as folder:
        for file in path.parent.glob(f"{path.name}*"):
            shutil.copy(file, folder)
        with closing(sqlite3.connect(Path(folder, path.name))) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            return [_NOW.sub("now", line) for line in connection.iterdump()]


def _fill(connection: sqlite3.Connection) -> None:
    """Put rows into the tables that there are, as far as their columns go."""
    tables = {
        "experiments": EXPERIMENT,
        "trials": TRIAL,
        "attempts": ATTEMPT,
        "events": EVENT,
        "summaries": SUMMARY,
    }
    for table, row in tables.items():
        columns = [column[1] for column in connection.execute(f"PRAGMA table_info({table})")]
        given: dict[str, Any] = {name: row[name] for name in columns if name in row}
        if not given:
            continue  # that version had no such table
        names = ", ".join(f'"{name}"' for name in given)
        blanks = ", ".join("?" for _ in given)
        connection.execute(f"INSERT INTO {table} ({names}) VALUES ({blanks})", list(given.values()))
