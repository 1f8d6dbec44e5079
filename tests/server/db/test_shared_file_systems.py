"""On a file system that machines may share, one connection does everything, and nothing is lost."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from harness import BIN, Project, eventually, stop_server
from mounts import in_own_mounts
from windlass.server.db.base import Connection, Database
from windlass.server.db.sqlite import SqliteDatabase
from windlass.worker.common.process_identity import is_alive

ADD = "INSERT INTO experiments (name, created) VALUES (:name, 1.0)"
WRITER = """
import os, signal, sys
from pathlib import Path
from windlass.server.db.sqlite import SqliteDatabase
database = SqliteDatabase(Path(sys.argv[1]), mountinfo=sys.argv[2])
add = "INSERT INTO experiments (name, created) VALUES (:name, 1.0)"
for number in range(20):
    database.write(lambda connection: connection.run(add, {"name": str(number)}))
    print(number, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
WORK = """
import sys
import windlass as wl

@wl.run(cpus=0.1)
def double(number):
    wl.report(1, loss=number)
    return 2 * number

if __name__ == "__main__":
    print(list(double.map(range(5))))
"""


def add(connection: Connection, name: str) -> None:
    connection.run(ADD, {"name": name})


def names(database: Database) -> list[str]:
    query = "SELECT name FROM experiments ORDER BY id"
    return database.read(lambda connection: [row["name"] for row in connection.rows(query)])


@pytest.fixture(params=["nfs4", "lustre", "fuse.sshfs", "of-tomorrow"])
def mountinfo(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The mounts of a machine whose files are all on one file system of this type."""
    file = tmp_path / "mountinfo"
    file.write_text(f"22 1 0:40 / / rw,relatime - {request.param} store:/ rw\n")
    return str(file)


def test_reads_and_changes_of_many_threads_take_turns(tmp_path: Path, mountinfo: str) -> None:
    path = tmp_path / "windlass.db"
    database = SqliteDatabase(path, mountinfo=mountinfo)

    def work(start: int) -> None:
        for number in range(start, start + 10):
            database.write(lambda connection, name=str(number): add(connection, name))
            assert str(number) in names(database)

    threads = [threading.Thread(target=work, args=(10 * n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, names(database))) == list(range(80))
    mode = database.read(lambda connection: connection.value("PRAGMA journal_mode"))
    assert mode == "truncate"
    assert not (tmp_path / "windlass.db-shm").exists(), "shared memory needs one machine"
    database.close()


def test_a_second_process_cannot_open_the_database(tmp_path: Path, mountinfo: str) -> None:
    database = SqliteDatabase(tmp_path / "windlass.db", mountinfo=mountinfo)
    database.write(lambda connection: add(connection, "one"))
    with (
        closing(sqlite3.connect(tmp_path / "windlass.db", timeout=0)) as other,
        pytest.raises(sqlite3.OperationalError, match="locked"),
    ):
        other.execute("SELECT * FROM experiments").fetchall()
    assert names(database) == ["one"]
    database.close()


def test_confirmed_changes_survive_a_kill(tmp_path: Path, mountinfo: str) -> None:
    path = tmp_path / "windlass.db"
    done = subprocess.run(
        [sys.executable, "-c", WRITER, path, mountinfo], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    database = SqliteDatabase(path, mountinfo=mountinfo)
    assert names(database) == done.stdout.split() == [str(number) for number in range(20)]
    database.close()


def test_a_home_may_move_between_file_systems(tmp_path: Path, mountinfo: str) -> None:
    path = tmp_path / "windlass.db"
    local = tmp_path / "local"
    local.write_text("22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n")
    done = subprocess.run(  # killed, so that its changes are only in the WAL
        [sys.executable, "-c", WRITER, path, local], capture_output=True, text=True, check=False
    )
    assert path.with_name("windlass.db-wal").stat().st_size
    database = SqliteDatabase(path, mountinfo=mountinfo)
    assert names(database) == done.stdout.split()
    database.write(lambda connection: add(connection, "shared"))
    assert not path.with_name("windlass.db-wal").exists()
    database.close()
    database = SqliteDatabase(path, mountinfo=str(local))
    assert names(database) == [*done.stdout.split(), "shared"]
    assert database.read(lambda connection: connection.value("PRAGMA journal_mode")) == "wal"
    database.close()


def test_the_log_names_the_file_system_once(
    tmp_path: Path, mountinfo: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "windlass"):
        database = SqliteDatabase(tmp_path / "windlass.db", mountinfo=mountinfo)
        for number in range(3):
            database.write(lambda connection, name=str(number): add(connection, name))
            names(database)
        database.close()
    [message] = caplog.messages
    kind = Path(mountinfo).read_text().partition(" - ")[2].split()[0]
    assert f"is on a file system of type {kind}" in message


@contextmanager
def mounted(kind: str, path: Path) -> Iterator[None]:
    """Mount a file system that is not in the list of local ones."""
    path.mkdir()
    if kind == "fuse":
        (path.parent / "source").mkdir()
        command = ["bindfs", "-n", str(path.parent / "source"), str(path)]
    else:
        command = ["mount", "-t", kind, "none", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{kind} cannot be mounted here: {done.stderr}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["ramfs", "fuse"])
@in_own_mounts
def test_a_home_on_such_a_file_system_runs_trials(
    kind: str, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "fuse" and not shutil.which("bindfs"):
        pytest.skip("bindfs is not installed")
    home = tmp_path / "mount" / "home"
    monkeypatch.setenv("WINDLASS_HOME", str(home))
    project.write("work.py", WORK)
    with mounted(kind, tmp_path / "mount"):
        try:
            for _ in range(2):
                done = project.python("work.py")
                assert done.stdout.splitlines()[-1] == "[0, 2, 4, 6, 8]", done.stderr
                log = (home / "server.log").read_text()
                assert f"file system of type {kind}" in log
                kill_server(home)
            listed = project.run(BIN / "windlass", "ls", "--sort", "metrics.loss", "--json").stdout
            assert listed.count('"SUCCEEDED"') == 10
            assert not (home / "windlass.db-shm").exists()
            doctor = project.run(BIN / "windlass", "doctor").stdout
            assert doctor.count(f"the home is on {kind}, which other machines may share") == 1
        finally:
            stop_server(home)
        with closing(sqlite3.connect(home / "windlass.db")) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def kill_server(home: Path) -> None:
    server = json.loads((home / "server.json").read_bytes())
    os.kill(server["pid"], signal.SIGKILL)
    eventually(lambda: not is_alive(server["pid"], server["identity"]), "the server's end")
