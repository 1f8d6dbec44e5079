"""A database of every earlier version is brought to the newest, and all that it held is there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from earlier import EARLIER, contents_of, make_database
from mounts import give_back, in_own_mounts, small_disk, take_space
from windlass.server.database import Database
from windlass.server.experiments import ExperimentStore
from windlass.server.faults import is_no_space
from windlass.server.migrations import HEAD
from windlass.server.trials import TrialStore


@pytest.mark.parametrize("revision", EARLIER)
def test_what_an_earlier_version_stored_is_there_after_the_upgrade(
    tmp_path: Path, revision: str
) -> None:
    path = tmp_path / "windlass.db"
    make_database(path, revision)
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


@in_own_mounts
def test_an_upgrade_without_room_on_the_disk_changes_nothing_and_is_done_when_there_is(
    tmp_path: Path,
) -> None:
    with small_disk(tmp_path / "disk", size="4m") as disk:
        path = disk / "windlass.db"
        make_database(path, "0001")
        before = contents_of(path)
        take_space(disk, leave=40_000)  # enough to begin with
        with pytest.raises(Exception, match="disk is full") as told:
            Database(path)
        assert is_no_space(told.value, disk)  # so it is told with what to do
        give_back(disk)
        assert contents_of(path) == before
        Database(path).close()
        assert contents_of(path) != before
