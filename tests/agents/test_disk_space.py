"""Finite disks:

a pod stores only what the server lacks, and the server reserves space for records.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_processes import RemoteSite, programs, request

import windlass as wl
from harness import PATIENCE, eventually, kill_server, stop_server
from mounts import give_back, in_own_mounts, small_disk, take_space
from windlass.model.job import Assignment, Job
from windlass.model.status import ReplicaId
from windlass.runtimes import paths, remote_attempt
from windlass.worker.common.atomic_files import is_locked

LARGE = 20 << 20
FULL = 507


@pytest.fixture
def elsewhere(home: Path, tmp_path: Path) -> Iterator[RemoteSite]:
    place = RemoteSite(home, tmp_path / "elsewhere", through_tunnels=False)
    yield place
    place.front.close()


@pytest.mark.thorough
def test_a_pod_deletes_parts_that_the_server_has(elsewhere: RemoteSite, tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.touch()
    trial = (
        wl.run(programs.save_parts_and_wait, replicas=2).submit(3, str(go)).wait(timeout=PATIENCE)
    )
    go.unlink()
    agents = [elsewhere.run(trial, index=index) for index in (0, 1)]
    for agent in agents:
        agent.wait_for_text("all are saved")
        eventually(lambda blobs=agent.there / "blobs": _large(blobs) == [], "the disk has room")
    go.touch()
    assert [agent.wait() for agent in agents] == [0, 0]
    uids = pickle.loads((agents[0].folder / paths.RESULT).read_bytes())
    checkpoints_by_uid = {
        checkpoint.uid: checkpoint for checkpoint in trial.refresh().list_checkpoints()
    }
    assert sorted(checkpoints_by_uid) == sorted(uids)
    for step, uid in enumerate(uids):
        folder = checkpoints_by_uid[uid].download(tmp_path / str(step))
        for rank in (0, 1):
            text = (folder / f"{rank}.bin").read_text()
            assert text == f"step {step} of {rank} " * 20_000
            assert (folder / f"frozen-{rank}").read_text() == chr(rank + 65) * 400_000


def _large(blobs: Path) -> list[str]:
    stored_files = []
    for path in _files(blobs):
        with contextlib.suppress(FileNotFoundError):
            stored_files += [path] if os.lstat(path).st_size > 200_000 else []
    return stored_files


@pytest.mark.thorough
def test_the_next_server_deletes_a_partial_upload_of_a_killed_server(home: Path) -> None:
    trial = wl.run(programs.nothing).submit().wait(timeout=PATIENCE)
    before = set(_files(home))
    with _upload(home, trial, "half", LARGE) as sending:
        sending.sendall(b"x" * (LARGE // 2))
        eventually(lambda: _bytes_in(home, before) > LARGE // 4, "some of it has come")
        kill_server(home)
    assert _bytes_in(home, before) > LARGE // 4, "it lies there"
    wl.server_info()  # starts another
    assert _bytes_in(home, before) < LARGE // 4


def _files(home: Path) -> Iterator[str]:
    """Return all files. Files that are deleted meanwhile may be among them."""
    for folder, _, names in os.walk(home):
        yield from (os.path.join(folder, name) for name in names)


def _bytes_in(home: Path, before: set[str]) -> int:
    """Return the total size of new files."""
    size = 0
    for path in _files(home):
        with contextlib.suppress(FileNotFoundError):
            size += 0 if path in before else os.lstat(path).st_size
    return size


@in_own_mounts
@pytest.mark.thorough
def test_a_checkpoint_waits_for_space_on_the_server_and_reports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, sign = tmp_path / "disk", tmp_path / "sign"
    home = disk / "home"
    monkeypatch.setenv("WINDLASS_HOME", str(home))
    monkeypatch.delenv("WINDLASS_SERVER", raising=False)
    with small_disk(disk, size="100m"):
        try:
            trial = _at_home(home, wl.run(programs.save_large).submit(LARGE, str(sign)))
            sign.touch()
            take_space(disk, leave=LARGE)  # a twentieth is reserved
            elsewhere = RemoteSite(home, tmp_path / "elsewhere", through_tunnels=False)
            agent = elsewhere.run(trial)
            agent.wait_for_text("saved")
            eventually(lambda: "no space for 21.0 MB" in _message(agent.folder), "it is reported")
            assert agent.process.poll() is None
            assert agent.ending() == {}
            assert [checkpoint.step for checkpoint in trial.list_checkpoints()] == [1]
            give_back(disk)
            assert agent.wait() == 0
            assert agent.ending()["exit_code"] == 0
            (new,) = [
                checkpoint
                for checkpoint in trial.refresh().list_checkpoints()
                if checkpoint.step == 2
            ]
            assert new.download(tmp_path / "there").read_bytes() == b"m" * LARGE
            elsewhere.front.close()
        finally:
            give_back(disk)
            stop_server(home)


def _at_home(home: Path, trial: wl.Trial[Any]) -> wl.Trial[Any]:
    """A finished trial whose code is already deleted. The end is reported before the deletion."""
    trial.wait(timeout=PATIENCE)
    lock = paths.trial_dir(home, trial.id) / "main-0" / "work.lock"
    eventually(lambda: not is_locked(str(lock)), "its code was taken out")
    return trial


@in_own_mounts
@pytest.mark.thorough
def test_a_return_value_is_stored_even_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = tmp_path / "disk"
    home = disk / "home"
    monkeypatch.setenv("WINDLASS_HOME", str(home))
    monkeypatch.delenv("WINDLASS_SERVER", raising=False)
    with small_disk(disk, size="100m"):
        try:
            trial = _at_home(home, wl.run(programs.answer).submit("all"))
            take_space(disk, leave=3 << 20)  # less than the reserve for records
            elsewhere = RemoteSite(home, tmp_path / "elsewhere", through_tunnels=False)
            agent = elsewhere.run(trial)
            assert agent.wait() == 0
            assert agent.ending()["exit_code"] == 0
            left = (agent.folder / paths.RESULT).read_bytes()
            assert pickle.loads(left) == "the answer to all"
            _ask_for(home, trial, attempt=3)  # requests for a finished trial are refused
            room = f"{elsewhere.url()}/api/v1/agents/{trial.record.uid}/main/0/3/room?size=1"
            response = request(room, elsewhere.token(trial.record.uid))
            assert response == FULL, "anything else has no room"
            elsewhere.front.close()
        finally:
            give_back(disk)
            stop_server(home)


@in_own_mounts
@pytest.mark.thorough
def test_an_upload_fails_early_if_the_disk_fills_up_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = tmp_path / "disk"
    home = disk / "home"
    monkeypatch.setenv("WINDLASS_HOME", str(home))
    monkeypatch.delenv("WINDLASS_SERVER", raising=False)
    with small_disk(disk, size="200m"):
        try:
            trial = _at_home(home, wl.run(programs.nothing).submit())
            before = set(_files(home))
            with _upload(home, trial, "large", 5 * LARGE) as sending:
                sending.sendall(b"x" * (LARGE // 2))
                eventually(lambda: _bytes_in(home, before) > LARGE // 4, "some of it has come")
                take_space(disk, leave=LARGE // 2 - (2 << 20))  # a twentieth is reserved
                sending.sendall(b"x" * (LARGE // 2 - (3 << 20)))
                assert sending.recv(100).startswith(b"HTTP/1.1 507 ")
            eventually(lambda: _bytes_in(home, before) < LARGE // 4, "what has come is gone")
        finally:
            give_back(disk)
            stop_server(home)


def _upload(home: Path, trial: wl.Trial[Any], name: str, size: int) -> socket.socket:
    """Open a connection over which an agent is about to upload an output."""
    _ask_for(home, trial, attempt=2)
    record = trial.record
    place = RemoteSite.__new__(RemoteSite)
    place.home = home
    host, port = place.url().removeprefix("http://").split(":")
    head = (
        f"PUT /api/v1/agents/{record.uid}/main/0/2/outputs?path={name} HTTP/1.1\r\n"
        f"Host: {host}\r\nAuthorization: Bearer {place.token(record.uid)}\r\n"
        f"Content-Length: {size}\r\n\r\n"
    )
    made = socket.create_connection((host, int(port)), PATIENCE)
    made.sendall(head.encode())
    return made


def _ask_for(home: Path, trial: wl.Trial[Any], attempt: int) -> None:
    """Create another attempt of a trial that no agent runs."""
    record = trial.record
    job = Job(uid=record.uid, trial_id=record.id, spec=record.spec)
    remote_attempt.ask_for(home, job, ReplicaId("main", 0, attempt), Assignment())


def _message(folder: Path) -> str:
    try:
        return str(json.loads((folder / paths.STATE).read_text())["message"])
    except FileNotFoundError:
        return ""
