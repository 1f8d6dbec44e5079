"""Checkpoints in parts are visible only after all ranks have saved theirs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import windlass as wl
from windlass.worker.checkpoints import copies as checkpoint_copies
from windlass.worker.checkpoints import records as checkpoint_records
from windlass.worker.checkpoints import shards


class Job:
    """A job of several ranks, each with its own folder."""

    def __init__(self, top: Path) -> None:
        self.trial = top / "home" / "trials" / "7"
        self.folder = self.trial / "checkpoints"
        self._work = top

    def start(self, rank: int, attempt: int) -> None:
        """Start an attempt of a rank, according to its directory."""
        (self.trial / f"worker-{rank}" / str(attempt)).mkdir(parents=True)

    def save(
        self,
        rank: int,
        step: int,
        *,
        attempt: int = 1,
        ranks: int = 3,
        name: str = "",
        text: str = "",
    ) -> str:
        work = self._work / f"work-{rank}"
        work.mkdir(exist_ok=True)
        for old in work.iterdir():
            old.unlink()
        (work / (name or f"shard-{rank}")).write_text(text or f"{rank} at {step} of {attempt}")
        saver = checkpoint_records.Saver(str(self.folder), "worker", rank, attempt)
        return shards.save(saver, str(work), step, {"rank": rank}, rank, ranks)

    def steps(self) -> list[int]:
        return [record["step"] for _, record in checkpoint_records.records(str(self.folder))]

    def texts(self) -> list[str]:
        checkpoint = checkpoint_copies.latest(
            checkpoint_records.Saver(str(self.folder), "worker", 0, 99)
        )
        return sorted(path.read_text() for path in Path(checkpoint or "").iterdir())

    def half(self) -> list[str]:
        return sorted(path.name for path in (self.folder / ".shards").iterdir())


@pytest.fixture
def job(tmp_path: Path) -> Job:
    made = Job(tmp_path)
    for rank in range(3):
        made.start(rank, 1)
    return made


def test_a_checkpoint_is_visible_when_the_last_part_exists_in_any_order(job: Job) -> None:
    uids = []
    for rank in (2, 0):
        uids.append(job.save(rank, 5))
        assert job.steps() == []
    uids.append(job.save(1, 5))
    assert len(set(uids)) == 1
    assert job.steps() == [5]
    assert job.texts() == ["0 at 5 of 1", "1 at 5 of 1", "2 at 5 of 1"]
    record = json.loads((job.folder / "1.json").read_text())
    assert (record["uid"], record["shards"], record["metadata"]) == (uids[0], 3, {"rank": 0})
    assert job.half() == []


def test_faster_ranks_do_not_wait_and_abandoned_parts_are_deleted(
    job: Job,
) -> None:
    job.save(0, 5)
    for rank in range(3):
        job.save(rank, 10)
    assert job.steps() == [10]
    assert job.half() == []  # no rank will ever save the rest of step 5
    for rank in range(3):
        job.save(rank, 10)  # saved again, it is another one
    assert job.steps() == [10, 10]


def test_parts_of_an_earlier_attempt_do_not_count(job: Job) -> None:
    job.save(0, 5)
    job.save(1, 5)
    job.start(1, 2)
    job.save(2, 5)
    assert job.steps() == []
    job.save(1, 5, attempt=2)
    assert job.texts() == ["0 at 5 of 1", "1 at 5 of 2", "2 at 5 of 1"]


def test_after_a_joint_restart_no_part_of_the_old_attempts_is_left(job: Job) -> None:
    job.save(0, 5)
    job.save(1, 5)
    shards.forget_dead(str(job.folder), 2)  # as a supervisor does; none of them holds its lock
    job.save(2, 5, attempt=2)
    assert job.steps() == []


def test_a_part_of_a_rank_that_ends_before_another_starts_is_kept(job: Job) -> None:
    job.save(0, 5)
    job.save(1, 5)
    (job.trial / "worker-0" / "1" / "exit.json").write_text('{"exit_code": 0}')
    (job.trial / "worker-1" / "1" / "exit.json").write_text('{"exit_code": 137}')
    shards.forget_dead(str(job.folder), 1)  # the third starts late
    job.save(2, 5)
    assert job.steps() == [], "one that failed starts again, and saves again"
    job.save(1, 5)
    assert job.texts() == ["0 at 5 of 1", "1 at 5 of 1", "2 at 5 of 1"]


def test_different_numbers_of_ranks_are_different_checkpoints(job: Job) -> None:
    job.save(0, 5)
    job.save(1, 5)
    job.save(0, 5, ranks=2)
    job.save(1, 5, ranks=2)
    assert job.steps() == [5]
    assert len(job.texts()) == 2


def test_a_file_that_differs_between_two_ranks_is_refused(job: Job) -> None:
    job.save(0, 5, name="config", text="same")
    job.save(1, 5, name="config", text="same")
    with pytest.raises(ValueError, match=r"'config' of rank 2 differs from that of rank [01]"):
        job.save(2, 5, name="config", text="other")
    assert job.steps() == []
    job.save(2, 5)
    assert job.texts() == ["2 at 5 of 1", "same"]


def test_a_part_needs_a_step_and_a_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="Pass step="):
        wl.save_checkpoint(tmp_path, shard=True)
    for wrong in ((3, 3), (-1, 2)):
        with pytest.raises(ValueError, match="there is no part"):
            wl.save_checkpoint(tmp_path, step=1, shard=wrong)
    with pytest.raises(TypeError, match="neither True nor"):
        wl.save_checkpoint(tmp_path, step=1, shard="all")  # type: ignore[arg-type]
    monkeypatch.setenv("WINDLASS_TRIAL_ID", "7")
    monkeypatch.delenv("WINDLASS_RANK", raising=False)
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(ValueError, match="has no rank"):
        wl.save_checkpoint(tmp_path, step=1, shard=True)


def test_a_checkpoint_whose_writer_was_killed_during_cleanup_is_not_created_twice(
    job: Job, tmp_path: Path
) -> None:
    """The server accepts a uid once. A second record with it could not be listed or deleted."""
    for rank in (0, 1):
        job.save(rank, 5)
    shutil.copytree(job.folder / ".shards", tmp_path / "left")
    first = job.save(2, 5)
    shutil.copytree(tmp_path / "left", job.folder / ".shards", dirs_exist_ok=True)
    job.start(2, 2)
    second = job.save(2, 5, attempt=2)
    assert job.steps() == [5, 5]
    uids = {record["uid"] for _, record in checkpoint_records.records(str(job.folder))}
    assert uids == {first, second} and first != second
