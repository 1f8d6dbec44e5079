"""Deleting: what is deleted is gone, its space is freed, and nobody else loses anything."""

from __future__ import annotations

import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from steps import double

import windlass as wl
from harness import PATIENCE, Project, eventually, stop_server
from rigged import start_rigged
from windlass.server.deletion import OF_A_TRIAL
from windlass.server.schema import metadata

little = wl.Local(cpus=0.1)


@wl.run(cpus=0.1)
def noise(size: int, seed: int) -> bytes:
    import random

    wl.report(1, loss=0.5)
    return random.Random(seed).randbytes(size)


def blobs(home: Path) -> int:
    return sum(path.stat().st_size for path in (home / "blobs").rglob("*") if path.is_file())


def test_every_table_of_a_trial_goes_with_it() -> None:
    """One that is forgotten would stop trials from being deleted, or leave its rows behind."""
    named = {
        key.parent.table.name
        for table in metadata.tables.values()
        for key in table.foreign_keys
        if isinstance(key, sa.ForeignKey) and key.column.table.name == "trials"
    }
    assert named == set(OF_A_TRIAL)


def test_a_trial_that_is_deleted_is_gone_with_its_files_and_its_space(fresh_home: Path) -> None:
    kept, gone = noise.submit(300_000, 1), noise.submit(300_000, 2)
    value = kept.result()
    gone.result()
    before = blobs(fresh_home)
    gone.delete()
    for ask in (
        gone.refresh,
        lambda: list(gone.logs()),
        lambda: wl.get_trial(gone.id),
        gone.delete,
    ):
        with pytest.raises(wl.NotFound):
            ask()
    assert [trial.id for trial in wl.list_trials()] == [kept.id]
    assert not (fresh_home / "trials" / str(gone.id)).exists()
    assert wl.gc(dry_run=True).blobs == 0, "all of it is young"
    report = wl.gc(older_than=0)
    assert report.bytes >= 300_000
    assert before - blobs(fresh_home) == report.bytes
    assert wl.get_trial(kept.id).result() == value
    assert wl.get_trial(kept.id).rerun().result() == value, "its code and arguments are there"


def test_what_goes_on_is_not_deleted(fresh_home: Path) -> None:
    trial = wl.Job(wl.Command(["sleep", "600"]), executor=little).submit()
    with pytest.raises(wl.Conflict, match=rf"trial {trial.id} .*\n.*windlass stop {trial.id}"):
        trial.delete()
    with pytest.raises(wl.Conflict, match="goes on"):
        wl.get_experiment(trial.record.experiment_id).delete()
    trial.stop(grace=0).wait()
    eventually(lambda: _is_deleted(trial), "it is, once nothing of it is left")


def _is_deleted(trial: wl.Trial[None]) -> bool:
    try:
        trial.delete()
    except wl.Conflict:
        return False
    return True


def test_an_experiment_goes_with_all_its_trials_and_no_other(fresh_home: Path) -> None:
    other = double.submit(2)
    exp = wl.create_experiment("a-mistake")
    trials = [exp.add(double, args={"x": number}) for number in range(3)]
    exp.wait()
    exp.delete()
    with pytest.raises(wl.NotFound, match="a-mistake"):
        wl.get_experiment("a-mistake")
    for trial in trials:
        with pytest.raises(wl.NotFound):
            trial.refresh()
    assert other.result() == 4
    assert [trial.id for trial in wl.list_trials()] == [other.id]


def test_a_trial_of_a_generator_goes_with_what_it_consists_of(fresh_home: Path) -> None:
    def build(trial: wl.Trial[None]) -> None:
        trial.add(double, args={"x": 1})
        trial.add(double, args={"x": 2})

    with wl.create_experiment("built") as exp:
        parent = exp.add(build)
    exp.wait()
    assert len(parent.children) == 2
    parent.delete()
    assert list(exp.list_trials()) == []


def test_the_link_to_a_trial_that_is_gone_harms_nobody(fresh_home: Path, project: Project) -> None:
    first = double.submit(2)
    first.wait()
    second = first.rerun()
    second.wait()
    first.delete()
    assert wl.get_trial(second.id).rerun().result() == 4
    shown = project.python("-m", "windlass", "show", str(second.id))
    assert shown.returncode == 0, shown.stderr


def test_submitters_lose_nothing_while_others_delete_and_collect(fresh_home: Path) -> None:
    done = threading.Event()

    def work(worker: int) -> int:
        for number in range(2):
            seed = worker * 100 + number  # the same value comes again
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
            assert [each.result(PATIENCE) for each in working] == [2, 2]
        finally:
            done.set()
        assert collecting.result(PATIENCE) > 0
    for trial in wl.list_trials():
        assert len(trial.result()) == 2_000


@pytest.mark.parametrize("step", [1, 2], ids=["before it writes", "after the commit"])
def test_a_server_killed_while_it_deletes_leaves_nothing_half_deleted(
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
        exp.delete()  # sent again to the next server; if it was done before, there is nothing
    except wl.NotFound:
        assert step == 2
    server.wait(PATIENCE)
    try:
        assert list(wl.list_trials()) == list(wl.list_experiments()) == []
        wl.gc(older_than=0)
        assert [name for name in os.listdir(home / "trials") if name.isdecimal()] == []
    finally:
        stop_server(home)


@wl.run(cpus=0.1)
def save(count: int) -> None:
    Path("state").write_text("1")
    for step in range(count):
        wl.save_checkpoint("state", step=step)


def test_each_checkpoint_that_is_needed_is_told_with_its_own_reasons(fresh_home: Path) -> None:
    trial = save.submit(6).wait()
    one, two, _, *others = trial.list_checkpoints()
    forked = trial.fork(one, {"count": 0}).wait()
    model = wl.create_model("net")
    for version in (two, *others):
        model.register_version(version)
    with pytest.raises(wl.Conflict) as error:
        trial.delete()
    first, second, third, rest = str(error.value).splitlines()[0].split(". ")
    of_it = f"of trial {trial.id} cannot be deleted:"
    assert first == f"Checkpoint {one.id} {of_it} trial {forked.id} began with it"
    assert second == f"Checkpoint {two.id} {of_it} it is version 1 of the model 'net'"
    assert third == f"Checkpoint {others[0].id} {of_it} it is version 2 of the model 'net'"
    assert rest == "Nor can 2 more of its checkpoints."
    with pytest.raises(wl.Conflict, match=f"^Checkpoint {two.id} .* of the model 'net'."):
        two.delete()


def test_rm_says_of_each_trial_whether_it_is_deleted(fresh_home: Path, project: Project) -> None:
    plain, needed, going = (save.submit(count).wait() for count in (0, 1, 1))
    needed.fork(args={"count": 0}).wait()
    wl.create_model("net").register_version(next(going.list_checkpoints()))
    ids = [str(each.id) for each in (plain, needed, going)]
    told = project.python("-m", "windlass", "rm", *ids, "--yes")
    assert told.returncode == 1
    assert told.stdout == f"Trial {plain.id} (save) is deleted.\n"
    for trial in (needed, going):
        why = f"Trial {trial.id} (save) is not deleted. Checkpoint {{}} of trial {trial.id} cannot"
        [checkpoint] = trial.list_checkpoints()
        assert why.format(checkpoint.id) in told.stderr
    assert "Nothing" not in told.stderr


def test_rm_asks_and_gc_tells(fresh_home: Path, project: Project) -> None:
    noise.submit(100_000, 1).result()
    unasked = project.python("-m", "windlass", "rm", "1")
    assert unasked.returncode == 2
    assert "--yes" in unasked.stderr
    told = project.python("-m", "windlass", "rm", "1", "7", "--yes")
    assert told.returncode == 1
    assert "Trial 1 (noise) is deleted." in told.stdout
    assert "There is no trial 7." in told.stderr
    dry = project.python("-m", "windlass", "gc", "-n", "--older-than", "0")
    assert re.match(r"Would free 1\d\d\.\d kB: \d contents? that nothing needs\.", dry.stdout)
    freed = project.python("-m", "windlass", "gc", "--older-than", "0")
    assert freed.stdout.startswith("Freed 1"), freed.stdout
    assert project.python("-m", "windlass", "gc").stdout.startswith("Freed 0 B: 0 contents")
