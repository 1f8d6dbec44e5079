"""Contents that are damaged in the store never run, and are sent again."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from harness import BIN, Project

pytestmark = pytest.mark.finding("A11")

PROGRAM = """
import windlass as wl
from helper import answer

@wl.run(cpus=0.05)
def work(big=0):
    return [answer()] * (1 + big)

if __name__ == "__main__":
    import sys
    print(work(*map(int, sys.argv[1:]))[0])
"""
HELPER = "def answer():\n    return {}\n"


@pytest.fixture
def author(project: Project) -> Project:
    project.write("work.py", PROGRAM)
    project.write("helper.py", HELPER.format(41))
    return project


def damage(path: Path) -> None:
    """Change one byte and keep the length."""
    data = bytearray(path.read_bytes())
    data[-2] ^= 1  # of the helper: 41 becomes 40
    path.write_bytes(data)


def blob(home: Path, data: bytes) -> Path:
    digest = hashlib.sha256(data).hexdigest()
    return home / "blobs" / digest[:2] / digest


def test_damaged_code_does_not_run_and_is_sent_again(fresh_home: Path, author: Project) -> None:
    assert author.python("work.py").stdout == "41\n"
    damage(blob(fresh_home, HELPER.format(41).encode()))
    failed = author.python("work.py")
    assert failed.returncode == 1
    assert "the content of 'helper.py' is damaged in the store and was set aside" in failed.stderr
    assert "code and its call are sent again" in failed.stderr
    assert author.python("work.py").stdout == "41\n"

    # Another tree with the same file finds the content, too.
    author.write("more.py", "")
    damage(blob(fresh_home, HELPER.format(41).encode()))
    assert author.python("work.py").returncode == 1
    assert author.python("work.py").stdout == "41\n"
    author.path.joinpath("more.py").unlink()
    assert author.python("work.py").stdout == "41\n"


def test_a_damaged_list_of_files_or_call_is_sent_again(fresh_home: Path, author: Project) -> None:
    assert author.python("work.py").stdout == "41\n"
    launch = json.loads((fresh_home / "trials/1/main-0/1/launch.json").read_text())
    damage(Path(launch["tree"]))
    failed = author.python("work.py")
    assert "the list of the code's files is damaged in the store" in failed.stderr
    assert author.python("work.py").stdout == "41\n"
    damage(Path(launch["executable"]["payload"]))
    assert author.python("work.py").stdout == "41\n"


@pytest.mark.parametrize("size", [0, 500_000])
def test_a_damaged_value_is_an_error(fresh_home: Path, author: Project, size: int) -> None:
    assert author.python("work.py", str(size)).stdout == "41\n"
    result = fresh_home / "trials/1/main-0/1/result.pkl"
    damage(blob(fresh_home, result.read_bytes()))
    read = author.run(BIN / "windlass", "result", "1")
    assert read.returncode == 1
    assert "return value of trial 1 is missing from the store, or was damaged" in read.stderr
    assert author.python("work.py", str(size)).stdout == "41\n", "the same value is stored again"


@pytest.mark.finding("A12")
def test_a_project_with_a_copy_of_a_manifest_is_submitted(
    fresh_home: Path, author: Project
) -> None:
    assert author.python("work.py").stdout == "41\n"
    launch = json.loads((fresh_home / "trials/1/main-0/1/launch.json").read_text())
    manifest = Path(launch["tree"]).read_bytes()
    entry = b'["file-%d","f","%s",1]'
    foreign = b",".join(entry % (n, hashlib.sha256(b"%d" % n).hexdigest().encode()) for n in (1, 2))
    author.path.joinpath("same.json").write_bytes(manifest)
    author.path.joinpath("foreign.json").write_bytes(b'{"files":[' + foreign + b'],"version":1}')
    done = author.python("work.py")
    assert done.stdout == "41\n", done.stderr
    assert author.run(BIN / "windlass", "gc", "--older-than", "0s").returncode == 0
    assert author.python("work.py").stdout == "41\n"


@pytest.mark.finding("A12")
@pytest.mark.thorough
def test_a_large_file_that_looks_like_a_manifest_is_submitted(
    fresh_home: Path, author: Project
) -> None:
    assert author.python("work.py").stdout == "41\n"
    with author.path.joinpath("large.json").open("wb") as file:
        file.write(b'{"files":[')
        for number in range(1_550_000):
            file.write(b'["%d","f","%064x",1],' % (number, number))
    assert author.path.joinpath("large.json").stat().st_size > 120 << 20
    done = author.python("work.py")
    assert done.stdout == "41\n", done.stderr
