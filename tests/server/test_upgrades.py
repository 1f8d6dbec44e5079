"""A database of every earlier version is brought to the newest, and all that it held is there."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from windlass.server.database import Database
from windlass.server.experiments import ExperimentStore
from windlass.server.migrations import HEAD
from windlass.server.migrations.migrate import migrate
from windlass.server.trials import TrialStore

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


def fill(path: Path) -> None:
    """Put rows into the tables that there are, as far as their columns go."""
    with sqlite3.connect(path) as connection:
        tables = {
            "experiments": EXPERIMENT,
            "trials": TRIAL,
            "attempts": ATTEMPT,
            "events": EVENT,
            "summaries": SUMMARY,
        }
        for table, row in tables.items():
            columns = [
                column[1] for column in connection.execute(f"PRAGMA table_info({table})").fetchall()
            ]
            given: dict[str, Any] = {name: row[name] for name in columns if name in row}
            if not given:
                continue  # that version had no such table
            names = ", ".join(f'"{name}"' for name in given)
            blanks = ", ".join("?" for _ in given)
            connection.execute(
                f"INSERT INTO {table} ({names}) VALUES ({blanks})", list(given.values())
            )


@pytest.mark.parametrize("revision", EARLIER)
def test_what_an_earlier_version_stored_is_there_after_the_upgrade(
    tmp_path: Path, revision: str
) -> None:
    path = tmp_path / "windlass.db"
    migrate(path, to=revision)
    fill(path)
    database = Database(path)
    try:
        trials = TrialStore(database)
        record = asyncio.run(trials.record(7))
        assert (record.name, record.experiment, record.state.value) == ("mnist", "mnist", "FAILED")
        assert record.project == ("vision" if revision < "0008" else "default")
        assert record.params == {"lr": 0.1, "model": {"depth": 3}, "name": "x"}
        assert (record.started, record.ended, record.restarts) == (3.0, 4.0, 1)
        assert (record.message, record.exit_code) == ("exit code 1", 1)
        assert [(each.attempt, each.node) for each in record.attempts] == [(2, "here")]
        [event] = asyncio.run(trials.events(7))
        assert event.message == "made"
        if revision >= "0003":
            assert record.labels == ("baseline",)
            loss = record.metrics["loss"]
            assert (loss.count, loss.min, loss.max, loss.mean) == (4, 1.0, 3.0, 2.0)
            assert (loss.last, loss.step) == (2.0, 9)
        experiment = asyncio.run(ExperimentStore(database).record("mnist"))
        assert (experiment.id, experiment.trials) == (3, 1)
        assert experiment.notes == ("0.3 diverges" if revision >= "0003" else "")
        assert experiment.state.value == "FAILED"
        version = database.read(lambda each: each.value("SELECT version_num FROM alembic_version"))
        assert version == HEAD
    finally:
        database.close()


def test_every_revision_is_among_those_that_are_tried() -> None:
    versions = Path(__file__).parents[2] / "src/windlass/server/migrations/versions"
    assert sorted(each.name[:4] for each in versions.glob("[0-9]*.py")) == [*EARLIER, HEAD]
