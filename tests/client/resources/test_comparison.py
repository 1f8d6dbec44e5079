"""`trial.diff` and `experiment.diff`, through the server."""

from __future__ import annotations

from pathlib import Path

import pytest

import windlass as wl
from harness import Project
from stored_trials import call, forget_blob, plant_manifest, submit, upload, upload_tree
from windlass.client.client import Client
from windlass.client.connection.transport import Transport
from windlass.model.job import Code, GeneratorCall
from windlass.model.records import Git, Provenance
from windlass.model.requests import CreateExperiment

PROGRAM = """
import sys
import windlass as wl
from model import depth

@wl.run(cpus=0.1)
def train(lr, epochs=3):
    return depth() * lr

train(float(sys.argv[1]))
"""


def test_two_runs_of_a_program_that_was_edited_in_between(home: Path, project: Project) -> None:
    project.write("train.py", PROGRAM)
    project.write("model.py", "def depth():\n    return 2\n")
    assert project.python("train.py", "0.1").returncode == 0
    project.write("model.py", "def depth():\n    return 3\n")
    project.write("new.py", "")
    assert project.python("train.py", "0.2").returncode == 0
    after, before = wl.list_trials(name="train", sort_by="-id", limit=2)
    diff = before.diff(after)
    assert [(c.name, c.before, c.after) for c in diff.arguments] == [("lr", 0.1, 0.2)]
    assert [(c.path, c.kind, c.added, c.removed) for c in diff.code] == [
        ("model.py", "changed", 1, 1),
        ("new.py", "added", 0, 0),
    ]
    assert diff.code[0].lines == (
        "@@ -1,2 +1,2 @@", " def depth():", "-    return 2", "+    return 3",
    )  # fmt: skip
    assert [(c.name, c.before, c.after) for c in diff.outcome] == [
        ("result", "0.2", "0.6000000000000001")
    ]
    assert not (diff.environment or diff.packages or diff.settings or diff.git or diff.notes)
    assert after.diff(before.id).code[0].lines[2:] == ("-    return 3", "+    return 2")


def test_the_same_call_twice_does_not_differ(home: Path, project: Project) -> None:
    project.write("train.py", PROGRAM)
    project.write("model.py", "def depth():\n    return 2\n")
    for _ in range(2):
        assert project.python("train.py", "0.5").returncode == 0
    after, before = wl.list_trials(name="train", sort_by="-id", limit=2)
    diff = before.diff(after)
    assert diff.is_same, str(diff)
    assert "Nothing differs" in str(diff)


def test_trials_held_since_their_start_are_compared_in_their_current_state(home: Path) -> None:
    job = wl.Job(wl.Command(["echo"]), executor=wl.Local(cpus=0.1))
    one, two, three, four = (job.submit() for _ in range(4))
    for trial in (one, two, three, four):
        wl.get_trial(trial.id).wait()  # the objects in hand are not updated
    diff = one.diff(two)
    assert (diff.before.state, diff.after.state) == ("SUCCEEDED", "SUCCEEDED")
    assert list(wl.compare([three, four])["state"]) == ["SUCCEEDED", "SUCCEEDED"]


def test_only_differing_files_are_downloaded_in_two_requests(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = {f"same/{n}.py": b"same %d\n" % n for n in range(50)}
    one = upload_tree({**shared, "a.py": b"one\n", "gone.py": b"gone\n"})
    two = upload_tree({**shared, "a.py": b"two\n", "come.py": b"come\n"})
    before, after = submit(one), submit(two)
    lengths: list[int] = []
    fetch = Transport.fetch

    def counted(self: Transport, method: str, path: str, **rest: object) -> bytes:
        if path == "/blobs/fetch":
            lengths.append(len(rest["body"].digests))  # type: ignore[attr-defined]
        return fetch(self, method, path, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Transport, "fetch", counted)
    diff = before.diff(after)
    assert [change.path for change in diff.code] == ["a.py", "come.py", "gone.py"]
    assert lengths == [2, 4]  # both lists of files, then the four contents
    before.diff(after)
    assert lengths == [2, 4, 4]  # the lists are cached by now
    assert before.diff(submit(one)).code == ()
    assert lengths == [2, 4, 4]


def test_files_of_every_kind_with_any_name_are_compared(home: Path) -> None:
    odd = "caf\udce9\n'$(x)\x1b[2J"
    one = upload_tree({odd: b"a\n", "run.sh": b"#!/bin/sh\n", "link": ("l", "run.sh"),
                       "big": b"x" * 1_000_001, "latin": b"\xe9\n", "blob": b"\0"})  # fmt: skip
    two = upload_tree({odd: b"b\n", "run.sh": ("x", b"#!/bin/sh\n"), "link": ("l", odd),
                       "big": b"y" * 1_000_001, "latin": b"\xe8\n", "blob": b"\1\0"})  # fmt: skip
    diff = submit(one).diff(submit(two))
    notes = {change.path: (change.note, change.lines) for change in diff.code}
    assert notes["big"] == ("large: 1.0 MB → 1.0 MB", ())
    assert notes["blob"] == ("binary: 1 B → 2 B", ())
    assert notes["run.sh"] == ("now executable", ())
    assert notes["latin"][1] == ("@@ -1 +1 @@", "-\udce9", "+\udce8")
    assert notes[odd][1] == ("@@ -1 +1 @@", "-a", "+b")
    text = str(diff)
    text.encode()  # no unprintable characters
    assert "\x1b" not in text
    assert '--- "caf\\udce9\\n\'$(x)\\x1b[2J"' in text


def test_packages_git_and_environments_are_compared(home: Path) -> None:
    one, two = upload(b"numpy==1.26\nold==1\n", b"numpy==2.1\n")
    git = Git(commit="1" * 40, branch="main")
    before = submit(provenance=Provenance(packages=one, python="3.11.7", git=git), params={"a": 1})
    after = submit(
        None,
        call(env={"MODE": "fast"}, replicas=2),
        provenance=Provenance(packages=two, python="3.12.0"),
        params={"a": 1},
        labels=("sweep",),
        spec={"priority": 3},
    )
    diff = before.diff(after)
    assert [(c.name, c.before, c.after) for c in diff.packages] == [
        ("numpy", "1.26", "2.1"), ("old", "1", None),
    ]  # fmt: skip
    assert [(c.name, c.after) for c in diff.environment] == [
        ("Python", "3.12.0"),
        ("env MODE", "fast"),
    ]
    assert [(c.name, c.kind) for c in diff.git][:1] == [("commit", "removed")]
    assert [(c.name, c.after) for c in diff.settings] == [("priority", 3), ("replicas", 2)]
    assert [(c.name, c.after) for c in diff.about] == [("labels", ["sweep"])]
    assert not diff.arguments


def test_code_missing_from_the_store_is_reported(home: Path) -> None:
    one = upload_tree({"lost.py": b"lost, once\n"})
    two = upload_tree({"lost.py": b"other\n"})
    before, after = submit(one), submit(two)
    forget_blob(home, b"lost, once\n")
    [change] = before.diff(after).code
    assert change.note == "its lines were not read"


def test_a_damaged_list_of_files_is_an_error(home: Path) -> None:
    before = submit(upload_tree({"a.py": b"1\n"}))
    after = submit(plant_manifest(home, b'{"files":[["../a","f","x",1]],"version":1}'))
    with pytest.raises(wl.ServerError, match="list of the files of a tree is damaged"):
        before.diff(after)


def test_a_comparison_with_a_non_trial_is_refused(home: Path) -> None:
    trial = submit()
    with pytest.raises(
        wl.InvalidArgument, match=f"Trial {trial.id} cannot be compared with itself"
    ):
        trial.diff(trial.id)
    with pytest.raises(wl.NotFound, match="There is no trial 99999"):
        trial.diff(99999)
    with pytest.raises(wl.InvalidArgument, match="'7' is neither a trial"):
        trial.diff("7")  # type: ignore[arg-type]


def test_reported_metrics_are_shown_side_by_side_and_sort_a_table(
    home: Path, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(
        "reporting.py",
        """
        import windlass as wl

        @wl.run(cpus=0.1)
        def fit(lr):
            for step in range(3):
                wl.report(step, loss=(step + 1) * lr, nothing=float("nan"))

        if __name__ == "__main__":
            list(fit.map([0.5, 0.25]))
        """,
    )
    assert project.python("reporting.py").returncode == 0
    before, after = wl.get_experiment("fit").list_trials()
    if before.params["lr"] != 0.5:
        before, after = after, before
    [loss] = before.diff(after).metrics
    assert (loss.name, loss.before.last, loss.after.last) == ("loss", 1.5, 0.75)  # type: ignore[union-attr]
    assert loss.change == -0.75
    lines = str(before.diff(after)).splitlines()
    assert [line.split() for line in lines if line.startswith("  loss")] == [
        ["loss", "1.5", "0.75", "-0.75"],
        ["loss", "min", "0.5", "0.25", "-0.25"],
        ["loss", "max", "1.5", "0.75", "-0.75"],
    ]
    frame = wl.get_experiment("fit").table(metrics=["loss", "loss.min"], sort_by="loss")
    assert list(frame["loss"]) == [0.75, 1.5]
    assert list(frame["loss.min"]) == [0.25, 0.5]


def make(name: str, **fields: object) -> int:
    """Create an experiment with metadata and return its id."""
    import uuid

    from windlass.model.records import ExperimentRecord

    request = CreateExperiment(key=uuid.uuid4().hex, name=name, **fields)  # type: ignore[arg-type]
    return Client().transport.ask("POST", "/experiments", ExperimentRecord, body=request).id


def test_experiments_are_compared_by_their_arguments_and_their_newest_code(
    home: Path,
) -> None:
    old_tree = upload_tree({"train.py": b"depth = 1\n"})
    new_tree = upload_tree({"train.py": b"depth = 2\n"})
    one = make("shallow", labels=("a",), config={"model": {"depth": 1}, "seed": 7})
    two = make(
        "deep", labels=("a", "b"), description="deeper", config={"model": {"depth": 2}, "seed": 7}
    )
    for lr in (0.1, 0.2):
        submit(old_tree, experiment_id=one, params={"lr": lr, "seed": 7})
    for lr in range(8):
        submit(new_tree, experiment_id=two, params={"lr": lr, "seed": 7})
    submit(new_tree, experiment_id=two, auxiliary=True, params={"port": 6006})
    diff = wl.get_experiment("shallow").diff("deep")
    assert (diff.before.trials, diff.after.trials) == (2, 8)
    assert [(c.name, c.before, c.after) for c in diff.config] == [("model.depth", 1, 2)]
    assert [c.name for c in diff.about] == ["name", "labels", "description"]
    assert [(t.name, t.before) for t in diff.parameters] == [("lr", (0.1, 0.2))]
    assert diff.newest is not None
    assert [change.path for change in diff.newest.code] == ["train.py"]
    assert not diff.is_same
    text = str(diff)
    assert "  lr  0.1, 0.2 → 0 to 7 (8 values)" in text.splitlines()
    assert "+depth = 2" in text
    assert diff.to_dict()["newest"]["code"][0]["path"] == "train.py"
    with pytest.raises(wl.InvalidArgument, match="compared with itself"):
        wl.get_experiment("deep").diff(two)
    with pytest.raises(wl.NotFound):
        wl.get_experiment("deep").diff("nothing of that name")


def test_experiments_without_trials_and_with_the_same_trials_are_compared(home: Path) -> None:
    one, two = make("empty-a"), make("empty-b")
    diff = wl.get_experiment(one).diff(two)
    assert diff.is_same and diff.newest is None
    assert "Nothing differs" in str(diff)
    for trial in (one, two):
        for lr in (0.1, 0.2) if trial == one else (0.2, 0.1):
            submit(experiment_id=trial, params={"lr": lr})
    again = wl.get_experiment(one).diff(wl.get_experiment(two))
    assert again.is_same, str(again)


def test_a_dry_run_has_nothing_to_compare(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trial, job = submit(), wl.Job(wl.Command(["echo"]))
    dry, experiment = job.submit(dry_run=True), wl.create_experiment("dry", dry_run=True)
    experiment.add(job)
    for ask in (
        lambda: trial.diff(dry),
        lambda: dry.diff(trial),
        lambda: wl.compare([trial, dry]),
        lambda: wl.get_experiment("stored").diff(experiment),
        lambda: experiment.diff("stored"),
        experiment.table,
        lambda: dry.download_code(tmp_path / "code"),
        lambda: experiment.download_code(tmp_path / "code"),
    ):
        with pytest.raises(wl.Unsupported, match="Nothing ran"):
            ask()
    assert not (tmp_path / "code").exists()


def test_parent_trials_have_no_code_to_compare(home: Path) -> None:
    builder = submit(
        None, call(executable=GeneratorCall(qualname="build")), spec={"suspend": False}
    )
    other = submit(upload_tree({"a.py": b"1\n"}))
    assert builder.diff(other).notes == (f"Trial {builder.id} has no recorded code.",)


def test_roles_with_separate_trees_are_compared_role_by_role(home: Path) -> None:
    common = upload_tree({"x.py": b"0\n"})
    one, two = upload_tree({"actor.py": b"1\n"}), upload_tree({"actor.py": b"2\n"})
    before, after = (
        submit(common, call("learner"), call("actor", code=Code(tree=tree))) for tree in (one, two)
    )
    assert [(c.role, c.path, c.kind) for c in before.diff(after).code] == [
        ("actor", "actor.py", "changed")
    ]
