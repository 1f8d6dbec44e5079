"""Two versions of Windlass in one home: they work together, or a clear error names the fix."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import windlass
from harness import BIN, PATIENCE, Project, eventually
from windlass.model.versions import API_LEVEL
from windlass.version import __version__

pytestmark = pytest.mark.thorough

NEWER = "99.1.0"

WORK = """
import os, sys, time
import windlass as wl

@wl.run(cpus=0.1)
def work(name, folder):
    print(name, "begins", flush=True)
    open(f"{folder}/{name}.begun", "a").write("x")
    while not os.path.exists(f"{folder}/{name}"):
        time.sleep(0.01)
    print(name, "ends")
    return name

if __name__ == "__main__":
    what, name, folder = sys.argv[1:]
    if what == "submit":
        print(work.submit(name, folder).id)
    elif what == "call":
        print("value", work(name, folder))
    elif what == "result":
        trial = wl.get_trial(int(name))
        print(trial.result(), len(trial.refresh().attempts), list(trial.logs()))
"""


class Version:
    """One of the versions, with the commands of its users."""

    def __init__(
        self, number: str, level: int, project: Project, folder: Path, path: Path | None
    ) -> None:
        self.number = number
        self.level = level
        self._project = project
        self._folder = folder
        self._env = {"PYTHONPATH": str(path)} if path else {}

    def work(self, what: str, name: str) -> subprocess.CompletedProcess[str]:
        return self._project.python("work.py", what, name, str(self._folder), env=self._env)

    def windlass(self, *args: str) -> subprocess.CompletedProcess[str]:
        return self._project.run(BIN / "windlass", *args, env=self._env)

    def lists_a_running_trial(self) -> bool:
        return "RUNNING" in self.windlass("ls").stdout

    def call(self, name: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "work.py", "call", name, str(self._folder)],
            cwd=self._project.path,
            env={**os.environ, **self._env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


@pytest.fixture
def this(project: Project, fresh_home: Path, folder: Path) -> Version:
    project.write("work.py", WORK)
    return Version(__version__, API_LEVEL, project, folder, None)


def copy_with_level(level: int, project: Project, folder: Path, path: Path) -> Version:
    """The same code with another version number and API level."""
    [source] = windlass.__path__
    shutil.copytree(source, path / "windlass")
    (path / "windlass" / "version.py").write_text(f'__version__ = "{NEWER}"\n')
    versions = path / "windlass" / "model" / "versions.py"
    stated = f"\nAPI_LEVEL = {API_LEVEL}\n"
    assert stated in versions.read_text()
    versions.write_text(versions.read_text().replace(stated, f"\nAPI_LEVEL = {level}\n"))
    return Version(NEWER, level, project, folder, path)


@pytest.fixture
def newer(this: Version, project: Project, folder: Path, tmp_path: Path) -> Iterator[Version]:
    """A version whose server does not accept clients of this version, nor the reverse."""
    version = copy_with_level(API_LEVEL + 3, project, folder, tmp_path / "newer")
    yield version
    version.windlass("server", "stop")  # otherwise this version would have to


def check_refusal(message: str, server: Version, client: Version) -> None:
    """Check that the error names both versions and the remedy."""
    assert "VersionMismatch" in message or message.startswith("Error")
    assert f"The server is Windlass {server.number} (API level {server.level})" in message
    assert f"this client is Windlass {client.number} (API level {client.level})" in message
    if client.level > server.level:
        assert "windlass server stop (running trials continue)" in message
    else:
        assert f"Install Windlass {server.number} here, too." in message


@pytest.mark.parametrize("newer_by", [1, 2])
def test_a_server_accepts_clients_of_two_older_api_levels(
    this: Version, project: Project, folder: Path, tmp_path: Path, newer_by: int, fresh_home: Path
) -> None:
    newer = copy_with_level(API_LEVEL + newer_by, project, folder, tmp_path / "newer")
    assert newer.windlass("server", "start").returncode == 0
    try:
        (folder / "a").touch()
        called = this.work("call", "a")
        assert called.stdout.splitlines()[-1] == "value a", called.stderr
        assert this.work("result", "1").stdout == "a 1 ['a begins', 'a ends']\n"
        assert json.loads((fresh_home / "server.json").read_text())["version"] == NEWER
    finally:
        newer.windlass("server", "stop")
    # The older server does not know what the newer client expects.
    assert this.windlass("server", "start").returncode == 0
    check_refusal(newer.work("call", "a").stderr, this, newer)


def test_servers_and_clients_of_two_versions_refuse_and_can_replace_each_other(
    this: Version, newer: Version, fresh_home: Path, folder: Path
) -> None:
    turns = ((this, newer), (newer, this))
    for number, (server, client) in enumerate(turns):
        name = f"trial-{number}"
        trial_id = server.work("submit", name).stdout.strip()
        assert trial_id.isdecimal()
        eventually((folder / f"{name}.begun").exists, "it runs")
        refused = client.work("submit", "refused")
        assert (refused.returncode, refused.stdout) == (1, "")
        check_refusal(refused.stderr, server, client)
        eventually(server.lists_a_running_trial, "it goes on")

        # The advice works, and the trial of one version ends under the server of the other.
        assert client.windlass("server", "stop").returncode == 0
        assert client.windlass("server", "start").returncode == 0
        assert json.loads((fresh_home / "server.json").read_text())["version"] == client.number
        (folder / name).touch()
        ended = client.work("result", trial_id)
        assert ended.stdout == f"{name} 1 ['{name} begins', '{name} ends']\n", ended.stderr
        assert (folder / f"{name}.begun").read_text() == "x"
    assert "refused" not in this.windlass("ls").stdout


def test_a_waiting_client_gets_an_error_when_a_server_of_another_version_starts(
    this: Version, newer: Version, folder: Path
) -> None:
    waiting = this.call("a")
    eventually((folder / "a.begun").exists, "it runs")
    os.kill(waiting.pid, signal.SIGSTOP)  # such as a laptop that was closed meanwhile
    assert newer.windlass("server", "stop").returncode == 0
    eventually(newer.lists_a_running_trial, "it goes on")
    os.kill(waiting.pid, signal.SIGCONT)
    _, output = waiting.communicate(timeout=PATIENCE)
    assert waiting.returncode == 1
    check_refusal(output, newer, this)
    (folder / "a").touch()
    assert newer.work("result", "1").stdout.startswith("a 1 ")
