"""Interrupted downloads of artifacts: a repeated download continues after any kill."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import output_functions
import psutil
import pytest

import windlass as wl
from harness import PATIENCE, Project, eventually, kill_server

SIZE = 400 << 20  # a sparse file: reading it needs no disk


@pytest.fixture(scope="module")
def large(module_home: Path) -> wl.Trial[None]:
    """A trial with a large output."""
    before = os.environ.get("WINDLASS_HOME")
    os.environ["WINDLASS_HOME"] = str(module_home)
    try:
        return output_functions.leave_large.submit(SIZE).wait(timeout=PATIENCE)
    finally:
        os.environ.pop("WINDLASS_HOME")
        if before is not None:
            os.environ["WINDLASS_HOME"] = before


def unfinished(folder: Path) -> list[Path]:
    """The non-empty partial files."""
    unfinished_files = folder.glob(".windlass-unfinished-*")
    return [path for path in unfinished_files if path.exists() and path.stat().st_size > 1 << 20]


def check_whole(path: Path) -> None:
    """Check that the folder contains exactly the complete large file."""
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert path.stat().st_size == SIZE
    with path.open("rb") as file:
        assert file.read(6) == b"begin\0"
        file.seek(SIZE // 2)
        assert file.read(3) == b"\0\0\0"
        file.seek(SIZE - 4)
        assert file.read() == b"\0end"


@pytest.mark.thorough
def test_a_download_continues_after_the_server_is_killed(
    home: Path, large: wl.Trial[None], tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    killed = threading.Event()

    def kill() -> None:
        eventually(lambda: bool(unfinished(folder)), "a part is there")
        kill_server(home)
        killed.set()

    killer = threading.Thread(target=kill)
    killer.start()
    wl.get_trial(large.id).download_artifacts(folder)
    killer.join(PATIENCE)
    assert killed.is_set()
    check_whole(folder / "large")


@pytest.mark.thorough
def test_the_next_download_continues_after_the_client_is_killed(
    home: Path, large: wl.Trial[None], project: Project, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    project.write(
        "fetch.py",
        f"import windlass as wl\nwl.get_trial({large.id}).download_artifacts({str(folder)!r})\n",
    )
    program = project.start("fetch.py")
    eventually(lambda: bool(unfinished(folder)), "a part is there")
    program.send_signal(signal.SIGKILL)
    program.communicate(timeout=PATIENCE)
    [part] = unfinished(folder)
    before, size = part.stat().st_ino, part.stat().st_size
    assert size < SIZE
    large.download_artifacts(folder)
    assert (folder / "large").stat().st_ino == before  # the same file, continued
    check_whole(folder / "large")


def test_a_partial_download_of_a_changed_file_is_discarded(home: Path, tmp_path: Path) -> None:
    trial = output_functions.leave_large.submit(8 << 20).wait(timeout=PATIENCE)
    [listed] = trial.list_artifacts()
    folder = tmp_path / "out"
    trial.download_artifacts(folder)
    # The partial file of a killed download, of another version of the file.
    (folder / "large").rename(folder / (".windlass-unfinished-" + "0" * 24))
    source = Path(trial.directory, "main-0", "outputs", "large")
    source.write_bytes(b"short")
    trial.download_artifacts(folder)
    assert [path.name for path in folder.iterdir()] == ["large"]
    assert (folder / "large").read_bytes() == b"short"
    assert listed.size == 8 << 20


@pytest.mark.thorough
def test_neither_side_holds_a_large_file_in_memory(
    home: Path, large: wl.Trial[None], project: Project, tmp_path: Path
) -> None:
    server = psutil.Process(wl.server_info().pid)
    before = server.memory_info().rss
    project.write(
        "fetch.py",
        f"""
        import resource
        import windlass as wl

        trial = wl.get_trial({large.id})
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        trial.download_artifacts({str(tmp_path / "out")!r})
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        """,
    )
    done = project.python("fetch.py")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) * 1024 < SIZE / 4
    assert server.memory_info().rss - before < SIZE / 4


def test_a_repeatedly_truncated_file_ends_in_a_download_or_an_error(
    home: Path, tmp_path: Path
) -> None:
    trial = output_functions.leave_large.submit(64 << 20).wait(timeout=PATIENCE)
    source = Path(trial.directory, "main-0", "outputs", "large")
    done = threading.Event()

    def change() -> None:
        while not done.is_set():
            os.truncate(source, 64 << 20)
            os.truncate(source, 5)
            time.sleep(0.0005)  # or no other process gets to run

    changer = threading.Thread(target=change)
    changer.start()
    try:
        for _ in range(5):
            try:
                trial.download_artifacts(tmp_path / "out", overwrite=True)
                assert (tmp_path / "out" / "large").stat().st_size in (5, 64 << 20)
            except wl.WindlassError as error:
                assert "changes while it is read" in str(error)
    finally:
        done.set()
        changer.join()


def test_a_growing_file_is_downloaded_at_one_of_its_sizes(home: Path, tmp_path: Path) -> None:
    trial = output_functions.leave.submit({"log": "0\n"}).wait(timeout=PATIENCE)
    source = Path(trial.directory, "main-0", "outputs", "log")
    done = threading.Event()

    def grow() -> None:
        with source.open("a") as file:
            number = 0
            while not done.is_set():
                number += 1
                file.write(f"{number}\n")
                file.flush()

    grower = threading.Thread(target=grow)
    grower.start()
    try:
        for _ in range(5):
            trial.download_artifacts(tmp_path / "out", overwrite=True)
            lines = (tmp_path / "out" / "log").read_text().split("\n")
            assert lines[:-1] == [str(number) for number in range(len(lines) - 1)]
    finally:
        done.set()
        grower.join()
