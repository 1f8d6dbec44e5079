"""The embedded server starts on first use, is unique per home, and never affects trials."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import windlass as wl
from harness import BIN, PATIENCE, Project, eventually, kill_server, stop_server
from windlass.model.versions import API_LEVEL
from windlass.version import __version__

WORK = """
import os, sys, time
import windlass as wl

@wl.run(cpus=0.1)
def work(name, folder):
    with open(f"{folder}/runs", "a") as runs:
        runs.write(f"{name} {os.getpid()}\\n")
    for number in range(50):
        print(name, number)
    while not os.path.exists(f"{folder}/{name}"):
        time.sleep(0.01)
    print(name, "ends")
    return name
"""


def described(home: Path) -> dict[str, Any]:
    """Return the server's description of itself."""
    record: dict[str, Any] = json.loads((home / "server.json").read_text())
    return record


def is_running(pid: int) -> bool:
    """Return whether such a process exists. A zombie does not count."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def runs(folder: Path) -> dict[str, int]:
    """Return the started trials and their processes, each once."""
    lines = (folder / "runs").read_text().splitlines() if (folder / "runs").exists() else []
    begun = [line.split() for line in lines]
    assert len({name for name, _ in begun}) == len(begun), f"something ran twice: {lines}"
    return {name: int(pid) for name, pid in begun}


def lines_of(name: str) -> list[str]:
    return [*(f"{name} {number}" for number in range(50)), f"{name} ends"]


def test_the_first_use_starts_a_server_that_only_its_owner_can_read_and_reach(
    project: Project, fresh_home: Path
) -> None:
    project.write(
        "train.py",
        """
        import os, windlass as wl

        @wl.run(secrets={"KEY": "hush-hush"})
        def train():
            os.mkdir("made")
            open("made/by_trial", "w").close()
            print("hello")

        train()
        """,
    )
    done = project.run("sh", "-c", 'umask 0; exec "$0" train.py', sys.executable)
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr

    # Files of a trial have the umask of its author, in a folder that only the owner can enter.
    [made] = fresh_home.rglob("by_trial")
    assert made.stat().st_mode & 0o777 == 0o666
    paths = [
        path
        for path in (fresh_home, *fresh_home.rglob("*"))
        if made.parent not in (path, *path.parents)
    ]
    open_to_others = {
        str(path): oct(path.lstat().st_mode)
        for path in paths
        if not path.is_symlink() and path.lstat().st_mode & 0o077
    }
    assert not open_to_others

    server = psutil.Process(described(fresh_home)["pid"])
    listening = [c for c in server.net_connections("inet") if c.status == psutil.CONN_LISTEN]
    assert {connection.laddr.ip for connection in listening} == {"127.0.0.1"}


def test_a_stopped_server_leaves_trials_running_and_the_next_adopts_them(
    project: Project, home: Path, tmp_path: Path
) -> None:
    project.write("train.py", WORK + "for name in 'ab': work.submit(name, sys.argv[1])\n")
    assert project.python("train.py", tmp_path).returncode == 0
    second, first = wl.list_trials(sort_by="-id", limit=2)
    eventually(lambda: len(runs(tmp_path)) == 2, "both run")
    old = described(home)["pid"]

    done = subprocess.run([BIN / "windlass", "server", "stop"], check=False, timeout=PATIENCE)
    assert done.returncode == 0
    assert not is_running(old)
    assert not (home / "server.json").exists()
    pids = runs(tmp_path)
    assert all(is_running(pid) for pid in pids.values())

    (tmp_path / "a").touch()  # one ends without a server
    eventually(lambda: not is_running(pids["a"]), "it ends by itself")
    assert first.result(timeout=PATIENCE) == "a"
    assert described(home)["pid"] != old
    eventually(lambda: second.refresh().state == "RUNNING", "the next one knows that it runs")
    (tmp_path / "b").touch()  # the other under the next server
    assert second.result(timeout=PATIENCE) == "b"

    assert list(first.logs()) == lines_of("a")
    assert list(second.logs()) == lines_of("b")
    assert runs(tmp_path) == pids
    assert [len(trial.attempts) for trial in (first.refresh(), second.refresh())] == [1, 1]


def test_a_waiting_client_restarts_a_killed_server_and_nothing_is_lost(
    project: Project, home: Path, tmp_path: Path
) -> None:
    project.write("train.py", WORK + "print('value', work('c', sys.argv[1]))\n")
    waiting = project.start("train.py", tmp_path)
    eventually(lambda: len(runs(tmp_path)) == 1, "it runs")
    old = described(home)["pid"]
    kill_server(home)
    eventually(lambda: described(home)["pid"] != old, "who waits starts another")
    (tmp_path / "c").touch()
    out, err = waiting.communicate(timeout=PATIENCE)
    assert out.splitlines() == [*lines_of("c"), "value c"]
    assert (waiting.returncode, err) == (0, "")
    assert list(runs(tmp_path)) == ["c"]


def test_a_stale_server_file_does_not_block_a_start(home: Path) -> None:
    assert wl.Client().server_info().pid == described(home)["pid"]
    record = described(home)
    with _listener() as (url, requests):
        for left in (
            json.dumps({**record, "pid": os.getpid(), "url": url}),  # both belong to others now
            json.dumps({**record, "version": "0.0.9"}),
            '{"url": 7',
        ):
            kill_server(home)
            (home / "server.json").write_text(left)
            assert wl.Client().server_info().pid == described(home)["pid"]
        assert requests == []  # the token never reaches a foreign server on that port


@contextlib.contextmanager
def _listener() -> Iterator[tuple[str, list[str]]]:
    """Run a foreign web server and yield its URL and the requests that it receives."""
    requests: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", requests
        server.shutdown()


@pytest.mark.parametrize(
    ("level", "fix"),
    [
        (API_LEVEL + 3, "Install Windlass 9.9.1 here, too."),
        (API_LEVEL - 1, "windlass server stop"),
        (None, "windlass server stop"),
        ("1", "windlass server stop"),
    ],
)
def test_a_server_of_another_api_level_is_named_with_a_remedy(
    home: Path, level: object, fix: str
) -> None:
    wl.Client().server_info()
    text = (home / "server.json").read_text()
    described = {**json.loads(text), "version": "9.9.1", "api_level": level}
    (home / "server.json").write_text(json.dumps(described))
    with pytest.raises(wl.VersionMismatch) as caught:
        wl.Client().server_info()
    described["api_level"] = API_LEVEL  # the version does not matter
    (home / "server.json").write_text(json.dumps(described))
    assert wl.Client().server_info().version == __version__
    (home / "server.json").write_text(text)
    shown = level if isinstance(level, int) else "unknown"
    assert f"The server is Windlass 9.9.1 (API level {shown})" in str(caught.value)
    assert f"this client is Windlass {__version__} (API level {API_LEVEL})" in str(caught.value)
    assert fix in str(caught.value)


def test_a_home_may_have_any_name(project: Project, tmp_path: Path) -> None:
    long = tmp_path / "späces und 漢字 'quoted' %41 #?&" / ("x" * 120)
    project.write("train.py", WORK + "print('value', work('d', sys.argv[1]))\n")
    (tmp_path / "d").touch()
    try:
        done = project.python("train.py", tmp_path, env={"WINDLASS_HOME": str(long)})
        assert done.stdout.splitlines() == [*lines_of("d"), "value d"], done.stderr
    finally:
        stop_server(long)
    assert (long / "trials" / "1").is_dir()


def test_an_unusable_home_raises_an_error_with_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    homes = [tmp_path / "file", tmp_path / "file" / "home", Path("/proc/windlass")]
    if os.getuid() != 0:  # root may write everywhere
        (tmp_path / "locked").mkdir(mode=0o500)
        homes.append(tmp_path / "locked" / "home")
    for home in homes:
        monkeypatch.setenv("WINDLASS_HOME", str(home))
        with pytest.raises(wl.ServerError) as caught:
            wl.Client().server_info()
        assert str(home) in str(caught.value)
        assert "Set WINDLASS_HOME" in str(caught.value)


def test_another_server_can_be_configured(project: Project, home: Path, tmp_path: Path) -> None:
    wl.Client().server_info()
    project.write("train.py", WORK + "print('value', work('e', sys.argv[1]))\n")
    (tmp_path / "e").touch()
    url = described(home)["url"] + "/"
    token = (home / "token").read_text().strip()
    elsewhere = {"WINDLASS_SERVER": url, "WINDLASS_TOKEN": token}
    own = tmp_path / "own"
    done = project.python("train.py", tmp_path, env={**elsewhere, "WINDLASS_HOME": str(own)})
    assert done.stdout.splitlines() == [*lines_of("e"), "value e"], done.stderr
    assert not (own / "server.json").exists()
    assert not (own / "windlass.db").exists()
    assert next(wl.list_trials(sort_by="-id")).params["name"] == "e"
    done = project.python("train.py", tmp_path, env={**elsewhere, "WINDLASS_HOME": "/proc/none"})
    assert done.stdout.splitlines()[-1:] == ["value e"], done.stderr  # nothing is stored here


def test_an_unreachable_server_is_named_in_the_error(home: Path) -> None:
    wl.Client().server_info()
    url = described(home)["url"]
    with pytest.raises(wl.Unauthorized, match="WINDLASS_TOKEN"):
        wl.Client(url, token="wrong").server_info()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(wl.ServerError, match=re.escape(nobody)):
        wl.Client(nobody, token="t").server_info()
    with _listener() as (other, _), pytest.raises(wl.ServerError, match="WINDLASS_SERVER"):
        wl.Client(other, token="t").server_info()


@pytest.mark.parametrize(
    ("url", "token"),
    [
        ("ftp://127.0.0.1:8000", "t"),
        ("127.0.0.1:8000", "t"),
        ("http://", "t"),
        ("http://127.0.0.1:eight", "t"),
        ("http://127.0.0.1:99999", "t"),
        ("http://[::1", "t"),
        ("http://127.0.0.1:8000", ""),
        ("http://127.0.0.1:8000", "two\nlines"),
        ("http://127.0.0.1:8000", "žeton"),
    ],
)
def test_an_invalid_address_or_token_is_refused(
    url: str, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_SERVER", url)
    monkeypatch.setenv("WINDLASS_TOKEN", token)
    with pytest.raises(wl.InvalidArgument, match=r"WINDLASS_(SERVER|TOKEN)"):
        wl.Client().server_info()
