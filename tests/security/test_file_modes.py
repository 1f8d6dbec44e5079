"""Files of the home are accessible only to their owner, with any umask."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import psutil
import pytest

import windlass as wl
from harness import BIN, Project, eventually, stop_server

PROGRAM = """
    import os
    import windlass as wl


    @wl.run(secrets={"TOKEN": "hush"}, cpus=0.1)
    def train(mood):
        print("a line")
        open("made-by-the-trial", "w").close()
        if mood == "raise":
            raise ValueError("as asked")
        if mood == "die":
            os.abort()
        return {"mood": mood}


    list(train.map(["smile", "raise", "die"], return_exceptions=True))
"""


def open_to_others(home: Path) -> list[str]:
    """The paths in a home that other users may access, except for files of trials."""
    modes = []
    for folder, folders, files in os.walk(home):
        for name in [".", *folders, *files]:
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if mode & 0o077 and not stat.S_ISLNK(mode) and "work" not in path.parts:
                modes.append(f"{path.relative_to(home)} {stat.filemode(mode)}")
    return sorted(set(modes))


@pytest.mark.parametrize("umask", ["000", pytest.param("022", marks=pytest.mark.thorough)])
def test_nothing_in_a_home_is_open_to_others(
    fresh_home: Path, project: Project, umask: str
) -> None:
    project.write("train.py", PROGRAM)
    project.write("plain.py", "open('made-by-the-script', 'w').close()")
    commands = [
        f"umask {umask}",
        f"{BIN}/python train.py",
        f"{BIN}/windlass run plain.py",
        f"{BIN}/windlass server stop",
        f"{BIN}/windlass ls",  # by a server that this shell started
    ]
    done = project.run("sh", "-c", " && ".join(commands))
    assert done.returncode == 0, done.stderr
    assert open_to_others(fresh_home) == []
    made = list(fresh_home.rglob("made-by-the-*"))
    assert len(made) == 4, "the walk saw what trials leave"
    # Those have the author's umask, like files of the author's programs, in a private folder.
    for path in made:
        doors = [parent for parent in path.parents if fresh_home in parent.parents]
        assert any(not door.stat().st_mode & 0o077 for door in doors)
    assert list(fresh_home.glob("cache/**/*")), "the walk saw the cache"


def test_home_and_token_are_private_and_the_token_outlives_servers(
    fresh_home: Path,
) -> None:
    fresh_home.mkdir(mode=0o777)
    fresh_home.chmod(0o777)  # accessible until a server restricts it
    wl.Client().server_info()
    token = fresh_home / "token"
    first = token.read_text()
    assert token.stat().st_mode & 0o777 == 0o600
    assert fresh_home.stat().st_mode & 0o777 == 0o700
    assert len(first.strip()) >= 40, "too short to be guessed at"
    stop_server(fresh_home)
    wl.Client().server_info()
    assert token.read_text() == first


def test_the_server_listens_on_the_loopback_interface_only(home: Path) -> None:
    info = wl.Client().server_info()
    listening = [
        connection
        for connection in psutil.Process(info.pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert [connection.laddr.ip for connection in listening] == ["127.0.0.1"]
    assert {connection.type for connection in listening} == {socket.SOCK_STREAM}


def test_private_files_are_deleted_with_their_trials(home: Path) -> None:
    @wl.run(secrets={"TOKEN": "hush"})
    def work() -> None: ...

    work()
    eventually(lambda: not os.listdir(home / "private"), "the private files are erased")
