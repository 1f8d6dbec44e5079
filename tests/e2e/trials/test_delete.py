"""Deletion removes the object, frees its space and affects no other object."""

from __future__ import annotations

import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from steps import double, newest, noise, save

import windlass as wl
from harness import BIN, PATIENCE, Project, eventually, stop_server
from server_with_faults import start_rigged
from windlass.server.db.migrate import upgrade
from windlass.server.db.sqlite_connection import SqliteConnection
from windlass.server.operations.delete import OF_A_TRIAL

SHARES_HOME = True

little = wl.Local(cpus=0.1)


def blobs(home: Path) -> int:
    return sum(path.stat().st_size for path in (home / "blobs").rglob("*") if path.is_file())


def test_rows_of_every_table_are_deleted_with_a_trial(tmp_path: Path) -> None:
    """A forgotten table would prevent deletions, or keep its rows."""
    path = tmp_path / "windlass.db"
    connection = SqliteConnection(path)
    upgrade(connection, path)
    named = {
        table
        for table in connection.tables()
        for key in connection.rows(f"PRAGMA foreign_key_list({table})")
        if key["table"] == "trials"
    }
    connection.close()
    assert named == set(OF_A_TRIAL)


def test_a_deleted_trial_is_gone_with_its_files_and_its_space(home: Path) -> None:
    wl.gc(older_than=0)
    kept, gone = noise.submit(300_000, 1), noise.submit(300_000, 2)
    value = kept.result()
    gone.result()
    before = blobs(home)
    gone.delete()
    for ask in (
        gone.refresh,
        lambda: list(gone.logs()),
        lambda: wl.get_trial(gone.id),
        gone.delete,
    ):
        with pytest.raises(wl.NotFound):
            ask()
    assert newest() == kept.id
    assert not (home / "trials" / str(gone.id)).exists()
    assert wl.gc(dry_run=True).blobs == 0, "all of it is young"
    report = wl.gc(older_than=0)
    assert report.bytes >= 300_000
    assert before - blobs(home) == report.bytes
    assert wl.get_trial(kept.id).result() == value
    assert wl.get_trial(kept.id).rerun().result() == value, "its code and arguments are there"


def test_a_running_trial_is_not_deleted(home: Path) -> None:
    trial = wl.Job(wl.Command(["sleep", "600"]), executor=little).submit()
    with pytest.raises(wl.Conflict, match=rf"trial {trial.id} .*\n.*windlass stop {trial.id}"):
        trial.delete()
    with pytest.raises(wl.Conflict, match="Unfinished trials"):
        wl.get_experiment(trial.record.experiment_id).delete()
    trial.stop(grace=0).wait()
    eventually(lambda: _is_deleted(trial), "it is, once nothing of it is left")


def _is_deleted(trial: wl.Trial[None]) -> bool:
    try:
        trial.delete()
    except wl.Conflict:
        return False
    return True


def test_an_experiment_is_deleted_with_all_its_trials_and_no_others(home: Path) -> None:
    other = double.submit(2)
    exp = wl.create_experiment("a-mistake")
    trials = [exp.add(double, args={"x": number}) for number in range(2)]
    exp.wait()
    exp.delete()
    with pytest.raises(wl.NotFound, match="a-mistake"):
        wl.get_experiment("a-mistake")
    for trial in trials:
        with pytest.raises(wl.NotFound):
            trial.refresh()
    assert other.result() == 4
    assert newest() == other.id


def test_the_deletion_of_a_generator_trial_includes_its_children(home: Path) -> None:
    def build(trial: wl.Trial[None]) -> None:
        trial.add(double, args={"x": 1})
        trial.add(double, args={"x": 2})

    with wl.create_experiment("built") as exp:
        parent = exp.add(build)
    exp.wait()
    assert len(parent.children) == 2
    parent.delete()
    assert list(exp.list_trials()) == []


def test_a_link_to_a_deleted_trial_is_harmless(home: Path, project: Project) -> None:
    first = double.submit(2)
    first.wait()
    second = first.rerun()
    second.wait()
    first.delete()
    assert wl.get_trial(second.id).rerun().result() == 4
    shown = project.python("-m", "windlass", "show", str(second.id))
    assert shown.returncode == 0, shown.stderr


@pytest.mark.thorough
def test_submissions_lose_nothing_during_deletions_and_collections(home: Path) -> None:
    done = threading.Event()

    def work(worker: int) -> int:
        for number in range(2):
            seed = worker * 100 + number  # the same value occurs again
            trial = noise.submit(2_000, seed)
            assert trial.result() == noise.local(2_000, seed)
            trial.delete()
            assert noise.submit(2_000, seed).result() == noise.local(2_000, seed)
        return 2

    def collect() -> int:
        rounds = 0
        while not done.is_set():
            wl.gc(older_than=0)
            rounds += 1
        return rounds

    with ThreadPoolExecutor(3) as pool:
        collecting = pool.submit(collect)
        working = [pool.submit(work, worker) for worker in range(2)]
        try:
            assert [trial.result(PATIENCE) for trial in working] == [2, 2]
        finally:
            done.set()
        assert collecting.result(PATIENCE) > 0
    kept = list(wl.list_trials(where="hparams.size = 2000 and name = 'noise'"))
    assert [len(trial.result()) for trial in kept] == [2_000] * 4


@pytest.mark.thorough
@pytest.mark.parametrize("step", [1, 2], ids=["before it writes", "after the commit"])
def test_a_server_killed_during_a_deletion_leaves_nothing_half_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("WINDLASS_HOME", str(home))
    exp = wl.create_experiment("doomed")
    for number in range(2):
        exp.add(double, args={"x": number})
    exp.wait()
    stop_server(home)
    server = start_rigged(home, f"die-writing:{step}")
    try:
        exp.delete()  # sent again to the next server; if it was done before, nothing is left
    except wl.NotFound:
        assert step == 2
    server.wait(PATIENCE)
    try:
        assert list(wl.list_trials()) == list(wl.list_experiments()) == []
        wl.gc(older_than=0)
        assert [name for name in os.listdir(home / "trials") if name.isdecimal()] == []
    finally:
        stop_server(home)


def test_a_refused_deletion_lists_each_needed_checkpoint_with_its_reasons(
    home: Path, project: Project
) -> None:
    trial, plain = save.submit(6), save.submit(0).wait()
    one, two, _, *others = trial.wait().list_checkpoints()
    forked = trial.fork({"count": 0}, checkpoint=one).wait()
    model = wl.create_model("net")
    for version in (two, *others):
        model.register_version(version)
    with pytest.raises(wl.Conflict) as error:
        trial.delete()
    first, second, third, rest = str(error.value).splitlines()[0].split(". ")
    of_it = f"of trial {trial.id} cannot be deleted:"
    assert first == f"Checkpoint {one.id} {of_it} trial {forked.id} started from it"
    assert second == f"Checkpoint {two.id} {of_it} it is version 1 of the model 'net'"
    assert third == f"Checkpoint {others[0].id} {of_it} it is version 2 of the model 'net'"
    assert rest == "The trial has 2 more such checkpoints."
    with pytest.raises(wl.Conflict, match=f"^Checkpoint {two.id} .* of the model 'net'."):
        two.delete()
    # `rm` reports each trial and continues after one that it cannot delete.
    ids = [str(deleted.id) for deleted in (trial, plain)]
    done = project.run(BIN / "windlass", "rm", *ids, "--yes")
    assert done.returncode == 1
    assert done.stdout == f"Trial {plain.id} (save) is deleted.\n"
    assert f"Trial {trial.id} (save) is not deleted. {first}. {second}" in done.stderr
    assert "Nothing" not in done.stderr


def test_rm_deletes_the_trials_that_match_a_condition(home: Path, project: Project) -> None:
    experiments = [wl.create_experiment(name) for name in ("rm-one", "rm-two")]
    trials = [exp.add(double, args={"x": x}) for exp in experiments for x in (7101, 7102)]
    for trial in trials:
        trial.wait()

    def left() -> list[int]:
        return [trial.id for exp in experiments for trial in exp.list_trials()]

    def rm(*words: str) -> tuple[int, str]:
        done = project.run(BIN / "windlass", "rm", "--where", *words)
        return done.returncode, done.stdout + done.stderr

    assert rm("hparams.x > 7199", "--yes") == (0, "No trial matches. Nothing is deleted.\n")
    assert rm("hparams.x > 7101", "-e", "rm-two")[0] == 2, "there is nobody to ask"
    assert rm("hparams.x >", "--yes")[0] == 1
    assert rm("hparams.x > 7101", str(trials[0].id), "--yes")[0] == 2
    assert left() == [trial.id for trial in trials]
    gone = f"Trial {trials[3].id} (double) is deleted.\n"
    assert rm("hparams.x > 7101", "-e", "rm-two", "--yes") == (0, gone)
    assert left() == [trial.id for trial in trials[:3]]
    assert rm("hparams.x = 7101", "--yes")[0] == 0
    assert left() == [trials[1].id]
    with pytest.raises(wl.NotFound):
        trials[0].refresh()
    assert wl.get_experiment("rm-two").trial_count == 0


def test_rm_needs_a_confirmation_and_gc_prints_the_freed_space(
    home: Path, project: Project
) -> None:
    trial = noise.submit(100_000, 1)
    trial.result()
    wl.gc(older_than=0)
    unasked = project.run(BIN / "windlass", "rm", str(trial.id))
    assert unasked.returncode == 2
    assert "--yes" in unasked.stderr
    done = project.run(BIN / "windlass", "rm", str(trial.id), "999999", "--yes")
    assert done.returncode == 1
    assert f"Trial {trial.id} (noise) is deleted." in done.stdout
    assert "There is no trial 999999." in done.stderr
    dry = project.run(BIN / "windlass", "gc", "-n", "--older-than", "0")
    assert re.match(r"Would free 1\d\d\.\d kB: \d unused contents?\.", dry.stdout)
    freed = project.run(BIN / "windlass", "gc", "--older-than", "0")
    assert freed.stdout.startswith("Freed 1"), freed.stdout
    assert project.run(BIN / "windlass", "gc").stdout.startswith("Freed 0 B: 0 unused contents")
