"""Packaged executables keep the code of that moment, with one hash for equal code."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from launched_program import LITTLE, TELL, reports

import windlass as wl
from harness import BIN, Project, kill_server, stop_server

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def here(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with a program that reports its arguments, as the working directory."""
    project.write("tell.py", TELL)
    project.write("word.txt", "first")
    monkeypatch.chdir(project.path)
    return project


def test_edits_after_packaging_are_not_included(here: Project) -> None:
    exp = wl.create_experiment("edited")
    [tell] = exp.package([wl.PythonScript("tell.py")])
    here.write("word.txt", "second")
    job = wl.Job(tell, executor=LITTLE)
    before = exp.add(job)
    [edited] = exp.package([wl.PythonScript("tell.py")])
    after = exp.add(wl.Job(edited, executor=LITTLE))
    assert [reports(before), reports(after)] == [
        [["main", [], "", "first"]], [["main", [], "", "second"]],
    ]  # fmt: skip
    assert before.name == "tell"


def test_a_packaged_script_runs_after_its_deletion_from_another_folder(
    here: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [tell] = wl.package([wl.PythonScript("tell.py")])
    shutil.rmtree(here.path)
    monkeypatch.chdir(tmp_path)
    trial = wl.create_experiment("gone").add(wl.Job(tell, executor=LITTLE), args=["x"])
    assert reports(trial) == [["main", ["x"], "", "first"]]


def test_equal_trees_have_one_hash_and_are_uploaded_once(here: Project, home: Path) -> None:
    [first] = wl.package([wl.PythonScript("tell.py")])
    here.write("word.txt", "other")
    [other] = wl.package([wl.PythonScript("tell.py")])
    here.write("word.txt", "first")
    before = _blobs(home)
    [again, module] = wl.package([wl.PythonScript("tell.py"), wl.PythonModule("tell")])
    assert first.tree == again.tree == module.tree != other.tree
    assert _blobs(home) == before
    shutil.copytree(here.path, here.path.parent / "copy")
    [copied] = wl.package([wl.PythonScript("../copy/tell.py")])
    assert copied.tree == first.tree


def _blobs(home: Path) -> dict[Path, int]:
    """The blobs of the server and the times of their writes."""
    return {path: path.stat().st_mtime_ns for path in (home / "blobs").rglob("*")}


def test_a_packaged_executable_describes_itself(here: Project) -> None:
    [tell] = wl.package([wl.PythonScript("tell.py")])
    assert isinstance(tell, wl.Packaged)
    assert tell.files == 2
    assert repr(tell) == f"<Packaged tell: tree {tell.tree[:12]}, 2 files, {tell.size} B>"
    assert wl.package([tell]) == [tell]
    assert wl.package([]) == []


def test_every_kind_of_program_can_be_packaged(here: Project) -> None:
    script = here.write("run.sh", '#!/bin/sh\necho "ran $1 $(cat word.txt)"\n')
    script.chmod(0o755)
    packaged = wl.package(
        [
            wl.PythonScript("tell.py"),
            wl.PythonModule("tell"),
            wl.Command(["./run.sh"]),
            wl.Command(["python", "tell.py", "own"]),
        ]
    )
    here.write("word.txt", "later")
    exp = wl.create_experiment("kinds")
    trials = [exp.add(wl.Job(executable, executor=LITTLE), args=["x"]) for executable in packaged]
    for trial in trials:
        trial.wait()
    lines = [str(line) for trial in trials for line in trial.logs()]
    assert lines == [
        '["main", ["x"], "", "first"]',
        '["main", ["x"], "", "first"]',
        "ran x first",
        '["main", ["own", "x"], "", "first"]',
    ]
    assert [trial.name for trial in trials] == ["tell", "tell", "run", "tell"]


def test_a_function_is_packaged_with_its_code(project: Project) -> None:
    project.write("words.py", "WORD = 'first'\n\n\ndef say(times):\n    return times * WORD\n")
    project.write(
        "go.py",
        """
        from pathlib import Path
        import windlass as wl
        import words

        def shout(times):
            import words as mine
            return mine.say(times).upper()

        exp = wl.create_experiment("functions")
        say, loud = exp.package([wl.PythonFunction(words.say), wl.PythonFunction(shout)])
        file = Path("words.py")
        file.write_text(file.read_text().replace("first", "second"))
        little = wl.Local(cpus=0.05)
        print(exp.add(wl.Job(say, executor=little), args={"times": 2}).result())
        print(exp.add(wl.Job(loud, executor=little), args=[1]).result())
        """,
    )
    done = project.python("go.py")
    assert done.stdout.split() == ["firstfirst", "FIRST"], done.stderr


def test_a_packaged_job_can_be_submitted_alone(here: Project) -> None:
    [tell] = wl.package([wl.PythonScript("tell.py")])
    here.write("word.txt", "later")
    trial = wl.Job(tell, args={"lr": 0.1}, executor=LITTLE).submit()
    assert reports(trial) == [["main", ["--lr=0.1"], "", "first"]]
    assert (trial.experiment, trial.params) == ("tell", {"lr": 0.1})
    assert trial.record.provenance.tree_files == 2
    assert reports(wl.Job(tell, executor=LITTLE).run()) == [["main", [], "", "first"]]


def test_the_roles_of_a_group_run_their_packaged_trees(here: Project, tmp_path: Path) -> None:
    actors = Project(tmp_path / "actors")
    actors.write("tell.py", TELL)
    actors.write("word.txt", "of the actors")
    learner, actor = wl.package(
        [wl.PythonScript("tell.py"), wl.PythonScript(actors.path / "tell.py")]
    )
    here.write("word.txt", "of later")
    group = wl.JobGroup(
        learner=wl.Job(learner, executor=LITTLE),
        actor=wl.Job(actor, executor=LITTLE),
        judge=wl.Job(wl.PythonScript("tell.py"), executor=LITTLE),
    )
    trial = wl.create_experiment("trees").add(group, args={"actor": ["a"]})
    assert reports(trial) == [
        ["actor", ["a"], "", "of the actors"],
        ["judge", [], "", "of later"],
        ["learner", [], "", "first"],
    ]
    codes = {
        role.name: (role.code or trial.record.spec.code).tree for role in trial.record.spec.roles
    }
    assert codes["learner"] == learner.tree
    assert codes["actor"] == actor.tree
    assert len(set(codes.values())) == 3
    page = here.run(BIN / "windlass", "show", str(trial.id)).stdout
    assert f"of actor     {actor.tree[:12]} from {actors.path}" in page


def test_an_explicit_root_of_a_script_is_used(here: Project) -> None:
    here.write("pyproject.toml", "")
    here.write("sub/tell.py", TELL)
    here.write("sub/word.txt", "of sub")
    whole, part = wl.package(
        [wl.PythonScript("sub/tell.py"), wl.PythonScript("sub/tell.py", root="sub")]
    )
    assert (whole.files, part.files) == (5, 2)
    for executable in (whole, part):
        assert reports(wl.Job(executable, executor=LITTLE).submit())[0][3] == "of sub"
    plain = wl.Job(wl.PythonScript("sub/tell.py", root="sub"), executor=LITTLE).submit()
    assert reports(plain)[0][3] == "of sub"
    assert plain.record.spec.code.tree == part.tree


@pytest.mark.parametrize(
    ("root", "flaw"),
    [
        ("nowhere", "root: 'nowhere' is not a folder"),
        ("sub", "root: 'tell.py' is not in 'sub'"),
        (7, "root: 7 is not a folder"),
    ],
)
def test_an_invalid_root_is_refused(here: Project, root: str, flaw: str) -> None:
    (here.path / "sub").mkdir()
    for refused in (
        lambda: wl.package([wl.PythonScript("tell.py", root=root)]),
        lambda: wl.Job(wl.PythonScript("tell.py", root=root)).submit(),
    ):
        with pytest.raises(wl.InvalidArgument, match=flaw):
            refused()


def test_an_executable_packaged_for_another_server_is_refused(
    here: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [tell] = wl.package([wl.PythonScript("tell.py")])
    first = os.environ["WINDLASS_HOME"]
    other = tmp_path / "other"
    monkeypatch.setenv("WINDLASS_HOME", str(other))
    try:
        exp = wl.create_experiment("elsewhere")
        for refused in (
            lambda: exp.add(wl.Job(tell)),
            lambda: wl.Job(tell).submit(),
            lambda: exp.package([tell]),
        ):
            with pytest.raises(wl.InvalidArgument) as caught:
                refused()
            assert caught.value.message == (
                f"tell was packaged for the server of {first}; this is the server of {other}."
            )
            assert "Package it for this server: exp.package([...])" in (caught.value.hint or "")
        assert list(exp.list_trials()) == []
    finally:
        stop_server(other)


def test_code_missing_on_the_server_is_reported_with_a_remedy(
    here: Project, fresh_home: Path
) -> None:
    exp = wl.create_experiment("lost")
    [tell] = exp.package([wl.PythonScript("tell.py")])
    kill_server(fresh_home)
    shutil.rmtree(fresh_home / "blobs")
    with pytest.raises(wl.SnapshotError, match="no longer has the packaged code") as caught:
        exp.add(wl.Job(tell))
    assert caught.value.hint == "Package it again: exp.package([...])"
    [again] = exp.package([wl.PythonScript("tell.py")])
    assert reports(exp.add(wl.Job(again, executor=LITTLE))) == [["main", [], "", "first"]]


@pytest.mark.thorough
def test_packaging_continues_with_the_next_server_after_a_kill(
    here: Project, fresh_home: Path
) -> None:
    exp = wl.create_experiment("killed")
    kill_server(fresh_home)
    [tell] = exp.package([wl.PythonScript("tell.py")])
    kill_server(fresh_home)
    assert reports(exp.add(wl.Job(tell, executor=LITTLE))) == [["main", [], "", "first"]]


def test_all_problems_of_packaging_are_reported_at_once(here: Project) -> None:
    with pytest.raises(wl.InvalidArgument) as caught:
        wl.package([wl.PythonScript("tel.py"), "tell.py", wl.Command(["./no-such-program"])])  # type: ignore[list-item]
    message = str(caught.value)
    assert "0: there is no script 'tel.py'" in message
    assert "Did you mean 'tell.py'?" in message
    assert "1: 'tell.py' is not an executable" in message
    assert "2: there is no program './no-such-program'" in message
    with pytest.raises(wl.InvalidArgument, match="takes a list of executables") as alone:
        wl.package(wl.PythonScript("tell.py"))  # type: ignore[arg-type]
    assert 'wl.package([wl.PythonScript("train.py")])' in (alone.value.hint or "")


def test_a_module_of_required_packages_may_be_packaged(here: Project) -> None:
    [module] = wl.package([wl.PythonModule("no_such_module")])
    with pytest.raises(wl.InvalidArgument, match="there is no module 'no_such_module'"):
        wl.Job(module).submit()


def test_a_program_of_an_image_may_be_packaged_without_a_check(
    here: Project,
) -> None:
    [program] = wl.package([wl.Command(["no-such-program", "--lr", "1"])])
    with pytest.raises(wl.InvalidArgument, match="there is no program 'no-such-program'"):
        wl.Job(program).submit()
    in_pods = wl.Job(program, executor=wl.Kubernetes()).submit(dry_run=True)
    assert in_pods.record.spec.roles[0].executable.argv == ("no-such-program", "--lr", "1")


def test_a_function_that_cannot_be_pickled_is_refused_when_packaged(project: Project) -> None:
    project.write(
        "go.py",
        """
        import threading
        import windlass as wl

        lock = threading.Lock()

        def locked():
            return lock

        wl.package([wl.PythonFunction(locked)])
        """,
    )
    done = project.python("go.py")
    assert "SerializationError: The call of 'locked' cannot be sent" in done.stderr
