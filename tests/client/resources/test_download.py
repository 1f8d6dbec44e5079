"""`download_code` writes the exact tree only into its folder, and replaces nothing."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import windlass as wl
from harness import Project
from stored_trials import call, forget_blob, plant_manifest, submit, upload_tree
from windlass.model.job import Code

ODD = ["a b", "-dash", "new\nline", "café", "not-utf8-\udcff", "'\"$(x)", "deep/er/still.py"]


def look(folder: Path) -> dict[str, object]:
    """Return everything below a folder: contents, executable bits, targets of links."""
    contents: dict[str, object] = {}
    for base, folders, files in os.walk(folder):
        for name in files + [
            folder for folder in folders if os.path.islink(os.path.join(base, folder))
        ]:
            path = os.path.join(base, name)
            here = os.path.relpath(path, folder)
            if os.path.islink(path):
                contents[here] = ("link", os.readlink(path))
            else:
                kind = "x" if os.stat(path).st_mode & stat.S_IXUSR else "f"
                contents[here] = (kind, Path(path).read_bytes())
    return contents


def test_the_downloaded_code_equals_the_submitted_code(
    home: Path, project: Project, tmp_path: Path
) -> None:
    project.write("train.py", "import windlass as wl\n@wl.run\ndef f():\n    pass\nf()\n")
    project.write("run.sh", "#!/bin/sh\n").chmod(0o755)
    (project.path / "empty").touch()
    (project.path / "link").symlink_to("run.sh")
    (project.path / "large").write_bytes(os.urandom(3_000_000))
    for name in ODD:
        path = project.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.fsencode(name))
    before = look(project.path)
    assert project.python("train.py").returncode == 0
    trial = next(wl.list_trials(sort_by="-id", limit=1))
    place = trial.download_code(tmp_path / "deep" / "code")
    assert place == tmp_path / "deep" / "code"
    assert look(place) == before
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((place / "run.sh").stat().st_mode) == 0o777 & ~umask
    assert stat.S_IMODE((place / "train.py").stat().st_mode) == 0o666 & ~umask


@pytest.fixture
def tree(home: Path) -> str:
    return upload_tree({"a.py": b"a\n", "b/c.py": ("x", b"c\n"), "b/l": ("l", "c.py")})


def test_an_identical_folder_is_unchanged_and_an_incomplete_one_is_filled(
    tree: str, tmp_path: Path
) -> None:
    trial = submit(tree)
    place = trial.download_code(str(tmp_path / "code"))
    times = {path: path.lstat().st_mtime_ns for path in place.rglob("*")}
    assert trial.download_code(place) == place
    assert {path: path.lstat().st_mtime_ns for path in place.rglob("*")} == times
    whole = look(place)
    (place / "b" / "l").unlink()
    (place / "b" / "c.py").unlink()
    (place / ".windlass-unfinished-0123").write_text("half")  # of a download that was killed
    trial.download_code(place)
    assert look(place) == whole


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: (p / "a.py").write_text("x\n"), "'a.py' differs"),
        (lambda p: (p / "a.py").chmod(0o755), "'a.py' differs"),
        (lambda p: (p / "mine.txt").touch(), "'mine.txt' does not belong to it"),
        (lambda p: (p / "b" / "mine").mkdir(), "'b/mine' does not belong to it"),
        (lambda p: ((p / "b" / "l").unlink(), (p / "b" / "l").symlink_to("x")), "'b/l' differs"),
        (lambda p: ((p / "a.py").unlink(), (p / "a.py").symlink_to("b/c.py")), "'a.py' differs"),
    ],
)
def test_a_folder_with_other_contents_is_refused_and_unchanged(
    tree: str, tmp_path: Path, change: object, message: str
) -> None:
    trial = submit(tree)
    place = trial.download_code(tmp_path / "code")
    change(place)  # type: ignore[operator]
    (place / "b" / "c.py").unlink()
    before = look(place)
    with pytest.raises(wl.Conflict, match="contains other files") as refused:
        trial.download_code(place)
    assert message in str(refused.value)
    assert look(place) == before


def test_a_target_that_is_not_a_folder_is_refused(tree: str, tmp_path: Path) -> None:
    trial = submit(tree)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(wl.InvalidArgument, match="is not a folder"):
        trial.download_code(tmp_path / "file")
    with pytest.raises(wl.InvalidArgument, match="is not a folder"):
        trial.download_code(tmp_path / "file" / "below")
    for odd in ("", 3, None, "a\0b"):
        with pytest.raises(wl.InvalidArgument, match="is not a folder"):
            trial.download_code(odd)  # type: ignore[arg-type]
    assert (tmp_path / "file").read_text() == "mine"


def test_the_folder_itself_may_be_a_link_and_may_be_empty(tree: str, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "code").symlink_to("real")
    submit(tree).download_code(tmp_path / "code")
    assert (tmp_path / "real" / "a.py").read_text() == "a\n"


DIGEST = hashlib.sha256(b"pwned\n").hexdigest()
HOSTILE = [
    [["../out", "f", DIGEST, 6]],
    [["/tmp/out", "f", DIGEST, 6]],
    [["a/../../out", "f", DIGEST, 6]],
    [["up", "l", "..", 0], ["up/out", "f", DIGEST, 6]],
    [["here", "l", ".", 0], ["here/out", "f", DIGEST, 6]],
    [["up", "l", "../out", 0]],
    [["up", "l", "/etc", 0], ["up/out", "f", DIGEST, 6]],
    [["up", "l", "/", 0]],
    [["up", "l", "/data/../etc", 0]],
    [["a", "f", DIGEST, 6], ["a", "l", "b", 0]],
    [["a\0b", "f", DIGEST, 6]],
    [["", "f", DIGEST, 6]],
    [["a", "f", "../../token", 6]],
    [["a", "d", DIGEST, 6]],
]


@pytest.mark.parametrize("files", HOSTILE, ids=[str(files)[:40] for files in HOSTILE])
def test_no_manifest_can_write_outside_the_folder(
    home: Path, tree: str, tmp_path: Path, files: list[object]
) -> None:
    upload_tree({"x": b"pwned\n"})
    manifest = json.dumps({"files": files, "version": 1}).encode()
    trial = submit(plant_manifest(home, manifest))
    inside = tmp_path / "box" / "code"
    with pytest.raises(wl.WindlassError, match="cannot be written"):
        trial.download_code(inside)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() or path.is_symlink()]
    assert not Path("/tmp/out").exists()


def test_a_link_in_the_target_is_not_followed(home: Path, tmp_path: Path) -> None:
    other = upload_tree({"x.py": b"x\n"})
    trial = submit(
        upload_tree({"a.py": b"a\n"}), call("learner"), call("actor", code=Code(tree=other))
    )
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "actor").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(wl.WindlassError):
        trial.download_code(tmp_path / "code")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_missing_blobs_are_named_and_the_rest_is_written(home: Path, tmp_path: Path) -> None:
    trial = submit(upload_tree({"a.py": b"still here\n", "b.py": b"soon lost\n"}))
    forget_blob(home, b"soon lost\n")
    with pytest.raises(wl.NotFound, match=r"incomplete: 'b\.py' is missing"):
        trial.download_code(tmp_path / "code")
    assert look(tmp_path / "code") == {"a.py": ("f", b"still here\n")}


def test_a_trial_without_code_is_reported(home: Path, tmp_path: Path) -> None:
    with pytest.raises(wl.NotFound, match="has no recorded code"):
        submit().download_code(tmp_path / "code")
    assert not (tmp_path / "code").exists()


def test_roles_with_separate_code_get_separate_folders(home: Path, tmp_path: Path) -> None:
    one, two = upload_tree({"a.py": b"a\n"}), upload_tree({"b.py": b"b\n"})
    trial = submit(one, call("learner"), call("actor", code=Code(tree=two)))
    trial.download_code(tmp_path / "code")
    both = {"learner/a.py": ("f", b"a\n"), "actor/b.py": ("f", b"b\n")}
    assert look(tmp_path / "code") == both
    trial.download_code(tmp_path / "code")
    (tmp_path / "code" / "mine").touch()
    with pytest.raises(wl.Conflict, match="'mine' does not belong to it"):
        trial.download_code(tmp_path / "code")
    same = submit(one, call("learner"), call("actor", code=Code(tree=one)))
    same.download_code(tmp_path / "same")
    assert look(tmp_path / "same") == {"a.py": ("f", b"a\n")}


def test_an_experiment_has_one_folder_or_one_for_each_version(home: Path, tmp_path: Path) -> None:
    one, two = upload_tree({"a.py": b"a\n"}), upload_tree({"a.py": b"b\n"})
    first, second = submit(one, experiment="versions"), submit(one, experiment="versions")
    submit(None, experiment="versions")
    submit(two, experiment="versions", auxiliary=True)
    experiment = wl.get_experiment("versions")
    experiment.download_code(tmp_path / "one")
    assert look(tmp_path / "one") == {"a.py": ("f", b"a\n")}
    third = submit(two, experiment="versions")
    for _ in range(2):
        experiment.download_code(tmp_path / "several")
    assert look(tmp_path / "several") == {
        f"code-{one[:12]}/a.py": ("f", b"a\n"),
        f"code-{two[:12]}/a.py": ("f", b"b\n"),
        "TRIALS.txt": (
            "f",
            f"code-{one[:12]}  trials {first.id}, {second.id}\n"
            f"code-{two[:12]}  trial {third.id}\n".encode(),
        ),
    }
    submit(None, experiment="bare")
    with pytest.raises(wl.NotFound, match="No trial of 'bare' has recorded code"):
        wl.get_experiment("bare").download_code(tmp_path / "bare")


def test_a_killed_download_can_be_resumed(home: Path, tmp_path: Path) -> None:
    files: dict[str, bytes | tuple[str, object]] = {
        f"{n:03}.bin": os.urandom(1000) + b"%d" % n for n in range(300)
    }
    trial = submit(upload_tree(files))
    # Killed in the middle of a file: a signal to itself, after half of its writes.
    program = """
import os, signal, sys
import windlass as wl
write, left = os.write, [int(sys.argv[3])]
def cut(fd, data):
    left[0] -= 1
    if left[0] < 0:
        write(fd, data[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    return write(fd, data)
os.write = cut
wl.get_trial(int(sys.argv[1])).download_code(sys.argv[2])
"""
    place = tmp_path / "code"
    for writes in (1, 150):
        argv = [sys.executable, "-c", program, str(trial.id), str(place), str(writes)]
        assert subprocess.run(argv, check=False).returncode < 0
        there = look(place)
        assert [name for name in there if name.startswith(".windlass-unfinished-")]
        whole = {name: what for name, what in there.items() if not name.startswith(".")}
        assert all(what == ("f", files[name]) for name, what in whole.items())
    trial.download_code(place)
    assert look(place) == {name: ("f", data) for name, data in files.items()}
