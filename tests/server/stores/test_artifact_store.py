"""The store of outputs: unreadable files, and pages during changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass.server.stores.artifacts import ArtifactLocation, ArtifactQuery, ArtifactStore


def outputs(home: Path, replica: str = "main-0") -> Path:
    """The output folder of a replica of trial 7."""
    folder = home / "trials" / "7" / replica / "outputs"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def open_home() -> Iterator[Path]:
    """A home that other users may read. The folders of pytest are private."""
    home = Path(tempfile.mkdtemp())
    home.chmod(0o755)
    yield home
    shutil.rmtree(home)


def test_an_unreadable_file_is_listed_with_the_reason(open_home: Path) -> None:
    folder = outputs(open_home)
    (folder / "shut" / "in").mkdir(parents=True)
    (folder / "bad").write_text("x")
    (folder / "good").write_text("x")
    (folder / "shut").chmod(0)
    (folder / "bad").chmod(0)
    program = f"""
import os
from pathlib import Path
from windlass.server.stores.artifacts import ArtifactQuery, ArtifactStore, ArtifactLocation
store = ArtifactStore(Path({str(open_home)!r}))
if os.getuid() == 0:
    os.setuid(65534)
items, _ = store.page(7, ArtifactQuery(), None, 10)
for each in items:
    print(each.name, each.problem, sep=": ")
os.close(store.open(7, ArtifactLocation(("main", 0), b"good")))
try:
    store.open(7, ArtifactLocation(("main", 0), b"bad"))
except PermissionError as error:
    print(error.strerror)
"""
    try:
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
        )
    finally:
        (folder / "shut").chmod(0o700)
    assert done.stdout.splitlines() == [
        "bad: ",
        "good: ",
        "shut: it cannot be read: Permission denied",
        "Permission denied",
    ], done.stderr


def test_pages_stay_consistent_while_files_come_and_go(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    for replica in ("worker-0", "worker-10", "worker-2"):
        folder = outputs(tmp_path, replica)
        for name in ("a", "b/c", "b/d/e", "b-", "z"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()
    seen, after = [], None
    while True:
        items, after = store.page(7, ArtifactQuery(), after, 2)
        seen += [(item.index, item.name) for item in items]
        if after is None:
            break
        # Each file is listed once, although the file of the cursor is gone.
        last = tmp_path / "trials" / "7" / f"worker-{after.replica[1]}" / "outputs"
        (last / os.fsdecode(after.path)).unlink()
    names = ["a", "b/c", "b/d/e", "b-", "z"]
    assert seen == [(index, name) for index in (0, 2, 10) for name in names]


def test_a_page_reads_a_limited_number_of_files_and_continues(tmp_path: Path) -> None:
    folder = outputs(tmp_path)
    for number in range(50):
        (folder / f"{number:02}").touch()
    store = ArtifactStore(tmp_path)
    items, after = store.page(7, ArtifactQuery(pattern="4?"), None, 100)
    assert ([item.name for item in items], after) == ([f"4{i}" for i in range(10)], None)


def test_an_output_folder_that_is_a_link_is_ignored(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret").touch()
    replica = tmp_path / "trials" / "7" / "main-0"
    replica.mkdir(parents=True)
    (replica / "outputs").symlink_to(elsewhere)
    store = ArtifactStore(tmp_path)
    assert store.page(7, ArtifactQuery(), None, 10) == ([], None)
    with pytest.raises(OSError, match="no such file"):
        store.open(7, ArtifactLocation(("main", 0), b"secret"))
    (replica / "outputs").unlink()
    (elsewhere / "outputs").mkdir()
    (elsewhere / "outputs" / "secret").touch()
    replica.rmdir()
    replica.symlink_to(elsewhere)
    assert store.page(7, ArtifactQuery(), None, 10) == ([], None)
    with pytest.raises(OSError, match="no such file"):
        store.open(7, ArtifactLocation(("main", 0), b"secret"))
