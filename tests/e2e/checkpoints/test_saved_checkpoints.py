"""Checkpoints, as the server stores them and users query them."""

from __future__ import annotations

import os
import pickle
import signal
from pathlib import Path
from typing import Any

import pytest
from checkpoint_functions import refused, save_crowd, train, validate
from steps import wait_for

import windlass as wl
from harness import BIN, PATIENCE, Project, eventually, kill_server

SHARES_HOME = True


def test_saving_an_invalid_checkpoint_raises_a_windlass_error(home: Path) -> None:
    trial = refused.submit()
    result = trial.result(timeout=PATIENCE)
    assert [text.partition(":")[0] for text in result] == ["NotFound"] + ["InvalidArgument"] * 6
    assert result[0].startswith("NotFound: There is no file or folder 'nowhere' to save (in /")
    assert all("\n  " in text and len(text) < 600 for text in result), result
    assert list(trial.list_checkpoints()) == []


def steps_of(trial: wl.Trial[Any], **how: Any) -> list[int | None]:
    return [checkpoint.step for checkpoint in trial.list_checkpoints(**how)]


def test_checkpoints_of_a_trial_are_listed_and_sorted_by_metric(home: Path) -> None:
    trial = train.submit([0.5, 0.2, float("nan"), 0.9]).wait()
    assert steps_of(trial) == [0, 1, 2, 3]
    assert steps_of(trial, sort_by="-step", limit=2) == [3, 2]
    assert steps_of(trial, sort_by="loss") == [1, 0, 3, 2]
    assert steps_of(trial, sort_by="-metrics.loss") == [3, 0, 1, 2]
    best = next(trial.list_checkpoints(sort_by="loss"))
    assert (best.metrics, best.trial_id, best.attempt, best.files) == (
        {"loss": 0.2},
        trial.id,
        1,
        2,
    )
    assert best.trial.id == trial.id
    assert best.list_files() == ["vocabulary", "weights"]
    assert best == wl.get_checkpoint(best.uid) == pickle.loads(pickle.dumps(best))
    with pytest.raises(wl.InvalidArgument, match="reported no such metric") as error:
        list(trial.list_checkpoints(sort_by="accuracy"))
    assert "It reported: loss." in str(error.value)
    with pytest.raises(wl.InvalidArgument, match="Did you mean 'loss'"):
        list(trial.list_checkpoints(sort_by="-los"))
    with pytest.raises(wl.InvalidArgument, match="of all trials cannot be sorted"):
        list(wl.list_checkpoints(sort_by="loss"))
    with pytest.raises(wl.NotFound, match="There is no checkpoint 99999"):
        wl.get_checkpoint(99999)
    with pytest.raises(wl.NotFound, match="There is no trial 99999"):
        list(wl.list_checkpoints(trial=99999))


def test_a_checkpoint_has_the_metrics_of_its_step_in_every_query(home: Path, gate: Path) -> None:
    @wl.run(cpus=0.1)
    def late(gate: str) -> None:
        wl.report(0, loss=9.0, odd=float("inf"))
        wl.report(0, group="system", cpu_percent=1.0)
        for step in (1, 5):
            Path("state").write_text(str(step))
            wl.save_checkpoint("state", step=step, metadata={"step": step})
        wl.report(1, group="validation", accuracy=0.5)
        wl.report(3, loss=3.0)  # after the save, and before its step
        wait_for(gate)
        wl.report(5, loss=2.0)
        wl.report(6, loss=1.0)

    trial = late.submit(str(gate))
    at_first = {"loss": 9.0, "odd": float("inf"), "validation/accuracy": 0.5}
    eventually(
        lambda: (
            [checkpoint.metrics for checkpoint in trial.list_checkpoints()]
            == [at_first, {**at_first, "loss": 3.0}]
        ),
        "they have all earlier reports",
    )
    gate.touch()
    trial.wait()
    first, last = trial.list_checkpoints()
    assert first.metrics == at_first
    assert last.metrics == {**at_first, "loss": 2.0}
    assert wl.get_checkpoint(last.id).metrics == last.metrics
    assert last.add_metadata(note="good").metrics == last.metrics
    [only] = wl.list_checkpoints(sort_by="-id", limit=1)
    assert (only.id, only.metrics) == (last.id, last.metrics)
    [by_metric] = trial.list_checkpoints(sort_by="loss", limit=1)
    assert (by_metric.id, by_metric.metrics) == (last.id, last.metrics)
    [by_system] = trial.list_checkpoints(sort_by="system/cpu_percent", limit=1)
    assert by_system.metrics["system/cpu_percent"] == 1.0  # it was requested
    with pytest.raises(wl.InvalidArgument, match=r"It reported: loss, odd, validation/accuracy\."):
        next(trial.list_checkpoints(sort_by="something"))


def test_a_checkpoint_lists_the_models_and_trials_that_need_it(
    home: Path, project: Project
) -> None:
    trial = train.submit([0.5, 0.25]).wait()
    first, last = trial.list_checkpoints()
    assert (first.models, first.continued_by) == ({}, ())
    for name in ("detector", "classifier"):
        wl.create_model(name).register_version(last)
    other = trial.continue_({"losses": []})
    first, last = trial.list_checkpoints()
    assert (first.models, first.continued_by) == ({}, ())
    assert last.models == last.refresh().models == {"classifier": 1, "detector": 1}
    assert last.continued_by == (other.id,)
    shown = project.run(BIN / "windlass", "checkpoint", "show", str(last.id)).stdout
    assert f"detector@1, classifier@1, trial {other.id}, which started from it" in shown
    assert "Metrics\n  loss  0.25\n" in shown
    wl.get_model("detector").delete()
    assert last.refresh().models == {"classifier": 1}


def test_checkpoint_pages_are_consecutive_and_an_invalid_cursor_is_refused(home: Path) -> None:
    trial = train.submit([3.0, 1.0, 2.0, 1.0, 5.0]).wait()
    transport = wl.Client().transport
    from windlass.model.requests import CheckpointPage

    for sort in ("loss", "-loss", "step", "-id"):
        whole = [checkpoint.id for checkpoint in trial.list_checkpoints(sort_by=sort)]
        query: dict[str, Any] = {"trial_id": trial.id, "sort": sort, "limit": 2, "cursor": None}
        walked: list[int] = []
        while True:
            page = transport.ask("GET", "/checkpoints", CheckpointPage, query=query)
            walked += [item.id for item in page.items]
            if page.next is None:
                break
            query["cursor"] = page.next
        assert walked == whole
        assert len(whole) == 5
        for garbage in ("nonsense", "e30", "WyJ4IiwieSIsInoiXQ"):
            with pytest.raises(wl.InvalidArgument, match="cursor"):
                transport.ask(
                    "GET", "/checkpoints", CheckpointPage, query={**query, "cursor": garbage}
                )


def test_a_second_download_repairs_an_incomplete_checkpoint(home: Path, tmp_path: Path) -> None:
    trial = train.submit([0.5]).wait()
    [checkpoint] = trial.list_checkpoints()
    folder = checkpoint.download(tmp_path / "model")
    assert folder == tmp_path / "model"
    assert (folder / "weights").read_text() == "0.5 "
    (folder / "weights").unlink()
    checkpoint.download(folder)
    assert (folder / "weights").read_text() == "0.5 "
    (folder / "mine").write_text("does not belong to it")
    with pytest.raises(wl.Conflict, match="contains other files"):
        checkpoint.download(folder)


def test_a_checkpoint_of_many_small_files_is_downloaded_repaired_and_collected(
    home: Path, tmp_path: Path
) -> None:
    trial = save_crowd.submit(["first", "second"]).wait()
    first, second = trial.list_checkpoints()
    assert (first.files, first.size, len(first.list_files())) == (100, 200_000, 100)
    folder = first.download(tmp_path / "first")
    assert len(list(folder.iterdir())) == 100
    assert (folder / "7").read_text().rstrip() == "first 7"
    (folder / "7").unlink()
    first.download(folder)
    assert (folder / "7").read_text().rstrip() == "first 7"
    (folder / "8").write_text("other".ljust(2000))
    with pytest.raises(wl.Conflict, match="'8' differs"):
        first.download(folder)
    wl.gc(older_than=0)  # left by other tests
    first.delete()
    assert wl.gc(older_than=0).blobs == 1, "its list: the second needs most of its files"
    again = second.download(tmp_path / "second")
    assert (again / "7").read_text().rstrip() == "second 7"
    assert (again / "70").read_text().rstrip() == "unchanged 70"
    second.delete()
    assert wl.gc(older_than=0).bytes > 200_000


def test_large_files_are_downloaded_unchanged(home: Path, tmp_path: Path) -> None:
    @wl.run(cpus=0.1)
    def save(data: bytes) -> str | None:
        Path("model.bin").write_bytes(data * 4)
        return wl.save_checkpoint("model.bin")

    data = os.urandom(4 << 20)
    uid = save.submit(data).result()
    saved = wl.get_checkpoint(uid or "").download(tmp_path)
    assert saved == tmp_path / "model.bin"
    assert saved.read_bytes() == data * 4


def test_metadata_is_set_and_removed_by_key(home: Path) -> None:
    [checkpoint] = train.submit([0.5], lr=0.1).wait().list_checkpoints()
    assert checkpoint.metadata == {"loss": 0.5, "lr": 0.1}
    checkpoint.add_metadata(note="best", lr=[1, 2]).remove_metadata("loss", "not-there")
    assert checkpoint.metadata == wl.get_checkpoint(checkpoint.id).metadata
    assert checkpoint.metadata == {"lr": [1, 2], "note": "best"}
    with pytest.raises(wl.InvalidArgument, match="metadata"):
        checkpoint.add_metadata(thing=object())
    with pytest.raises(wl.InvalidArgument, match="the limits are 100"):
        checkpoint.add_metadata(**{f"n{number}": 1 for number in range(200)})
    assert len(checkpoint.refresh().metadata) == 2


def test_a_deleted_checkpoint_is_gone_for_the_trial_too(home: Path) -> None:
    trial = train.submit([0.5, 0.4]).wait()
    first, last = trial.list_checkpoints()
    last.delete()
    with pytest.raises(wl.NotFound):
        last.refresh()
    assert steps_of(trial) == [0]
    assert trial.continue_().result() == "0.5 "
    with pytest.raises(wl.Conflict, match=r"trial \d+ started from it"):
        first.delete()


@pytest.mark.parametrize(
    ("keep", "left"),
    [
        ({"keep_last": 2}, [3, 4]),
        ({"keep_last": 1, "keep_best": "min loss"}, [1, 4]),
        ({"keep_last": 2, "keep_best": "2 max loss"}, [0, 2, 3, 4]),
        ({"keep_best": "3 min loss"}, [1, 3, 4]),
        ({}, [0, 1, 2, 3, 4]),
    ],
)
def test_the_retention_options_decide_which_checkpoints_stay(
    home: Path, keep: dict[str, Any], left: list[int]
) -> None:
    trial = train.options(**keep).submit([0.9, 0.1, 0.8, 0.3, 0.7]).wait()
    assert steps_of(trial) == left
    names = {path.name for path in Path(trial.directory, "checkpoints").iterdir()}
    assert names == {f"{step + 1}.json" for step in left}


def test_retention_options_are_checked_before_a_trial_runs(home: Path) -> None:
    wrong: Any
    for wrong in (0, -1, True, "3", 1.5):
        with pytest.raises(
            wl.InvalidArgument, match=r"keep_last: .* is not a valid number of checkpoints"
        ):
            train.options(keep_last=wrong)
    for wrong in ("loss", "best loss", "min", "", 3, "0 min loss", "min loss max acc"):
        with pytest.raises(wl.InvalidArgument, match="keep_best: "):
            wl.Job(wl.Command(["true"]), keep_best=wrong).submit()


def warnings_of(trial: wl.Trial[Any]) -> list[str]:
    return [event.message for event in trial.refresh().events if event.kind == "Warning"]


@pytest.mark.parametrize(
    ("best", "group", "last", "message"),
    [
        ("max accuracy", "validation", {}, "did you mean 'validation/accuracy'?"),
        ("max accuracies", "training", {"keep_last": 2}, "did you mean 'accuracy'?"),
        ("min los", "training", {}, "it reported accuracy"),
    ],
)
def test_no_checkpoint_is_deleted_for_a_metric_without_values(
    home: Path, project: Project, best: str, group: str, last: dict[str, int], message: str
) -> None:
    trial = validate.options(keep_best=best, **last).submit({"accuracy": 1.0}, group=group).wait()
    assert steps_of(trial) == [0, 1, 2, 3]
    [warning] = warnings_of(trial)
    metric = best.split()[1]
    assert warning == (f"keep_best: no {metric!r} was reported, so all checkpoints stay; {message}")
    shown = project.run(BIN / "windlass", "show", str(trial.id))
    assert f"keep_best: no {metric!r} was reported" in shown.stdout


def test_a_waiting_client_gets_a_warning_when_all_checkpoints_stay(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    validate.options(keep_best="min los")({"loss": 1.0})
    message = "Warning: keep_best: no 'los' was reported, so all checkpoints stay"
    assert f"{message}; did you mean 'loss'?\n" in capfd.readouterr().err


def test_a_warning_about_a_grouped_metric_appears_while_the_trial_runs(
    home: Path, gate: Path
) -> None:
    @wl.run(cpus=0.1, keep_best="max accuracy")
    def long(gate: str) -> None:
        import time

        Path("state").write_text("1")
        for step in range(100_000):
            wl.report(step, group="validation", accuracy=0.5)
            wl.save_checkpoint("state", step=step)
            if Path(gate).exists():
                return
            time.sleep(0.05)  # no notification for a file

    trial = long.submit(str(gate))
    eventually(lambda: bool(warnings_of(trial)), "it was reported")
    assert not trial.is_finished
    gate.touch()
    assert len(warnings_of(trial.wait())) == 1


def test_steps_that_are_counted_differently_delete_nothing(home: Path) -> None:
    @wl.run(cpus=0.1, keep_best="min loss")
    def by_batch() -> None:
        Path("state").write_text("1")
        for epoch in range(3):
            wl.report(100 * (epoch + 1), loss=1.0)
            wl.save_checkpoint("state", step=epoch)

    trial = by_batch.submit().wait()
    assert steps_of(trial) == [0, 1, 2]
    [warning] = warnings_of(trial)
    assert "no 'loss' was reported at their steps, up to 2, or before" in warning


@pytest.mark.parametrize(("last", "left"), [({}, [0, 1, 2, 5]), ({"keep_last": 2}, [2, 4, 5])])
def test_a_checkpoint_without_a_value_stays_unless_keep_last_is_set(
    home: Path, last: dict[str, int], left: list[int]
) -> None:
    rule = validate.options(keep_best="min loss", **last)
    trial = rule.submit({"loss": 1.0}, count=6, first=2).wait()
    assert steps_of(trial) == left
    assert warnings_of(trial) == []


def test_the_first_checkpoint_of_a_continued_trial_is_not_deleted(home: Path) -> None:
    @wl.run(cpus=0.1, keep_last=1)
    def save(gate: str) -> None:
        import time

        Path("state").write_text("1")
        wl.save_checkpoint("state", step=1)
        while not Path(gate).exists():
            time.sleep(0.01)  # no notification for a file
        for step in (2, 3):
            wl.save_checkpoint("state", step=step)

    gate = home / "gate"
    trial = save.submit(str(gate))
    eventually(lambda: steps_of(trial) == [1], "it was reported while it continues")
    with pytest.raises(wl.Conflict, match="so there is nothing to continue"):
        trial.continue_()
    other = trial.fork()
    gate.touch()
    trial.wait()
    other.wait()
    assert steps_of(trial) == [1, 3]  # 1 is where the other one started


def test_a_trial_continues_from_the_checkpoint_of_another(home: Path, project: Project) -> None:
    trial = train.submit([0.5, 0.4]).wait().set_labels(["good"])
    longer = trial.continue_({"losses": [0.3]})
    assert longer.result() == "0.4 "
    assert longer.labels == ()  # whether the checkpoint is valid is checked below
    assert (longer.origin.id if longer.origin else None, longer.params["losses"]) == (
        trial.id,
        [0.3],
    )
    begun = longer.begins_with
    assert begun is not None
    assert (begun.trial_id, begun.step) == (trial.id, 1)
    [own] = longer.list_checkpoints()
    assert own.step == 0
    assert longer.continue_().result() == "0.4 0.3 "  # its own, now that it has one
    first = next(trial.list_checkpoints())
    other = trial.fork({"losses": []}, checkpoint=first, name="other way", labels=["b", "a", "b"])
    assert other.result() == "0.5 "
    assert other.labels == ("b", "a")
    assert other.rerun().result() == "0.5 "  # exactly the same again
    assert other.continue_().result() == "0.5 "  # it saved none: its first one
    with pytest.raises(wl.InvalidArgument, match="is of trial"):
        trial.fork(checkpoint=own)
    shown = project.run(BIN / "windlass", "show", str(trial.id)).stdout
    assert "continued at step 1" in shown
    assert "forked at step 0" in shown
    nothing = train.submit([]).wait()
    with pytest.raises(wl.InvalidArgument, match="saved no checkpoint"):
        nothing.continue_()


def test_parts_saved_by_ranks_are_one_checkpoint_when_complete(home: Path, tmp_path: Path) -> None:
    @wl.run(cpus=0.1, replicas=2, framework="torch", retries=1)
    def save(gate: str) -> str | None:
        import os
        import signal
        import time

        rank, attempt = wl.rank(), os.environ["WINDLASS_ATTEMPT"]
        latest = wl.latest_checkpoint()
        if latest is not None:
            return " ".join(sorted(path.read_text() for path in Path(latest).iterdir()))
        Path("part").mkdir(exist_ok=True)
        Path("part", f"shard-{rank}").write_text(f"{rank} of attempt {attempt}")
        if attempt == "1" and rank == 1:
            while not os.listdir(gate):
                time.sleep(0.01)  # no notification for a file
            os.kill(os.getpid(), signal.SIGKILL)
        wl.save_checkpoint("part", step=7, shard=True, metadata={"by": rank})
        Path(gate, f"{rank}-{attempt}").touch()
        if attempt == "1":
            time.sleep(600)  # until it is killed with the others
        return None

    gate = tmp_path / "gate"
    gate.mkdir()
    trial = save.submit(str(gate))
    trial.wait()
    [checkpoint] = trial.list_checkpoints()
    assert (checkpoint.shards, checkpoint.step, checkpoint.attempt) == (2, 7, 2)
    assert checkpoint.metadata == {"by": 0}
    assert checkpoint.list_files() == ["shard-0", "shard-1"]
    assert trial.continue_().result() == "0 of attempt 2 1 of attempt 2"
    left = [path.name for path in Path(trial.directory, "checkpoints").iterdir()]
    assert left == ["1.json"]  # no part is left


@pytest.mark.thorough
def test_a_checkpoint_saved_without_a_server_is_recorded_once(fresh_home: Path) -> None:
    @wl.run(cpus=0.1)
    def save(gate: str) -> None:
        import time

        Path("state").write_text("1")
        while not Path(gate).exists():
            time.sleep(0.01)  # no notification for a file
        wl.save_checkpoint("state", step=1)
        Path(gate).unlink()
        while not Path(gate).exists():
            time.sleep(0.01)

    gate = fresh_home / "gate"
    trial = save.submit(str(gate))
    eventually(lambda: trial.refresh().state == "RUNNING", "it runs")
    kill_server(fresh_home)
    gate.touch()
    eventually(lambda: not gate.exists(), "it has saved")
    eventually(lambda: steps_of(trial) == [1], "a new server found it")
    gate.touch()
    trial.wait()
    assert steps_of(trial) == [1]


@pytest.mark.thorough
def test_a_server_killed_during_a_deletion_finishes_it_after_its_restart(fresh_home: Path) -> None:
    trial = train.submit([0.5, 0.4]).wait()
    folder = Path(trial.directory, "checkpoints")
    kill_server(fresh_home)
    import sqlite3

    with sqlite3.connect(fresh_home / "windlass.db") as database:
        database.execute("UPDATE checkpoints SET is_deleted = 1 WHERE number = 2")
    assert steps_of(trial) == [0]
    eventually(lambda: not (folder / "2.json").exists(), "its record is gone")
    assert steps_of(trial) == [0]


def test_commands_list_show_download_and_delete_checkpoints(home: Path, project: Project) -> None:
    trial = train.submit([0.5, 0.25], lr=0.1).wait()
    first, last = trial.list_checkpoints()

    def windlass(*words: object) -> str:
        done = project.run(BIN / "windlass", *map(str, words))
        assert done.returncode == 0, done.stderr
        return done.stdout

    listed = windlass("checkpoint", "ls", trial.id, "--sort", "loss").splitlines()
    assert listed[0].split() == ["ID", "STEP", "LOSS", "SIZE", "SAVED", "NAME"]
    assert listed[1].split()[:3] == [str(last.id), "1", "0.25"]
    assert str(last.uid) in windlass("checkpoint", "ls", "--json")
    shown = windlass("checkpoint", "show", last.id)
    assert f"Checkpoint {last.id}  model  step 1" in shown
    assert "lr" in shown
    assert "weights" in shown
    assert f"{trial.id}, its 2nd checkpoint" in shown
    assert f"{last.id} (step 1, " in windlass("show", trial.id)
    windlass("checkpoint", "download", last.id, "--to", "out")
    assert (project.path / "out" / "weights").read_text() == "0.25 "
    assert "0.5 0.25" not in windlass(
        "continue", trial.id, "--checkpoint", first.id, "--arg", "losses=[]"
    )
    assert "is deleted" in windlass("checkpoint", "rm", "--yes", last.id)
    refused = project.run(BIN / "windlass", "checkpoint", "rm", "--yes", str(first.id))
    assert refused.returncode == 1
    assert "started from it" in refused.stderr


def test_a_program_killed_while_it_saves_leaves_no_partial_checkpoint(home: Path) -> None:
    @wl.run(cpus=0.1)
    def save(size: int) -> None:
        import threading

        Path("model").write_bytes(os.urandom(1 << 20) * size)
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGKILL)).start()
        while True:
            wl.save_checkpoint("model", step=size)

    trial = save.submit(32).wait()
    assert trial.state == "FAILED"
    for checkpoint in trial.list_checkpoints():
        assert checkpoint.size == 32 << 20
    left = [path.name for path in (home / "blobs").iterdir()]
    assert not [name for name in left if name.startswith(".saving")]
