"""A server is killed before any statement of creating or upgrading its database."""

from __future__ import annotations

import itertools
import shutil
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from killed_upgrade import Upgrader, upgrading

from database_contents import contents_of
from windlass.server.db.migrate import MIGRATIONS

pytestmark = pytest.mark.thorough

SECOND = """
ALTER TABLE experiments ADD COLUMN color TEXT DEFAULT 'red' NOT NULL;
CREATE TABLE colors (name TEXT NOT NULL PRIMARY KEY, experiment_id INTEGER NOT NULL);
INSERT INTO colors SELECT name, id FROM experiments;
UPDATE experiments SET color = name;
DELETE FROM experiments WHERE id = 2;
DROP INDEX experiments_by_uid;
CREATE INDEX experiments_by_color ON experiments (color);
"""
THIRD = """
DROP INDEX experiments_by_color;
ALTER TABLE experiments DROP COLUMN color;
DELETE FROM colors WHERE name = 'green';
"""
FEWEST_STEPS = 14  # the statements of both, with BEGIN, COMMIT and the rows of the history


def test_an_upgrade_killed_before_any_statement_is_complete_or_absent(tmp_path: Path) -> None:
    folder, path = tmp_path / "migrations", tmp_path / "windlass.db"
    shutil.copytree(MIGRATIONS, folder)
    with upgrading() as upgrader:
        assert upgrader.open(path, folder, 0) == 0
        with closing(sqlite3.connect(path)) as connection, connection:
            add = "INSERT INTO experiments (name, created) VALUES (?, 1.0)"
            connection.executemany(add, [("green",), ("white",)])
        (folder / "0002_colors.sql").write_text(SECOND)
        (folder / "0003_blue.sql").write_text(THIRD)
        steps = count_steps(upgrader, path, folder)
    assert steps >= FEWEST_STEPS


def test_a_database_whose_creation_is_killed_before_any_statement_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "windlass.db"
    path.touch()
    with upgrading() as upgrader:
        steps = count_steps(upgrader, path, MIGRATIONS)
    assert steps >= (MIGRATIONS / "0001_initial.sql").read_text().count("\nCREATE ")


def count_steps(upgrader: Upgrader, path: Path, folder: Path) -> int:
    """Kill an upgrade at each of its steps until it completes, and return their number."""
    complete = path.with_name("complete.db")
    shutil.copy(path, complete)
    assert upgrader.open(complete, folder, 0) == 0
    before, after = contents_of(path), contents_of(complete)
    assert before != after
    # One database: each upgrade starts with the files that the killed one left.
    for step in itertools.count(1):
        code = upgrader.open(path, folder, step)
        if code == 0:
            break
        assert code == -signal.SIGKILL, f"step {step}"
        assert contents_of(path) == before, f"step {step}"
    assert contents_of(path) == after
    return step - 1
