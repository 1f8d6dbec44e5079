"""Clients report long waits for the start of a server, and give up."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import windlass as wl
from harness import BIN, PATIENCE, Project, eventually, stop_server
from pseudo_terminal import Terminal
from windlass.client.connection import start_waits
from windlass.client.connection.transport import Transport
from windlass.model.requests import ServerInfo
from windlass.worker.common.lock_holder import describe_process, find_holder

HOLD = """
import fcntl, sys
with open(sys.argv[1], "a") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print("locked", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holding(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds the lock on a file until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"locked\n"
        yield process
    finally:
        process.stdin.close()
        process.wait(PATIENCE)
        process.stdout.close()


def shorten_waits(patched: pytest.MonkeyPatch) -> None:
    patched.setenv("WINDLASS_REPORT_WAITS", "0.2")
    patched.setattr(start_waits, "PATIENCE", 0.6)


def test_a_process_is_described_by_its_command_line(tmp_path: Path) -> None:
    with holding(tmp_path / "lock") as holder:
        described = describe_process(holder.pid)
    assert described.startswith(f"process {holder.pid} ({sys.executable} -c ")


@pytest.mark.finding("A13")
def test_a_client_that_waits_for_the_lock_of_the_start_names_its_holder_and_gives_up(
    fresh_home: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh_home.mkdir()
    lock = fresh_home / "start.lock"
    with holding(lock) as holder, monkeypatch.context() as patched:
        shorten_waits(patched)
        with pytest.raises(wl.ServerError) as caught:
            wl.Client().server_info()
        named = f"process {holder.pid} ({sys.executable}"
        assert f"for 0.6 seconds, {named}" in str(caught.value)
        assert f"kill {holder.pid}" in str(caught.value)
        assert "windlass doctor" in str(caught.value)
        notice = capfd.readouterr().err
        assert notice.startswith(f"windlass: Waiting for {named}")
        assert f"holds {lock}" in notice
    # The thread that still waited for the lock does not keep it.
    assert wl.Client().server_info().pid


@pytest.mark.finding("A13")
def test_a_lock_that_is_released_in_time_is_taken(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_REPORT_WAITS", "0.2")
    lock = tmp_path / "start.lock"
    with holding(lock) as holder:
        assert holder.stdin is not None
        threading.Timer(0.35, holder.stdin.close).start()
        fd = start_waits.take_start_lock(lock)
        assert "Waiting for" in capfd.readouterr().err
    assert find_holder(lock) == os.getpid()
    os.close(fd)
    assert find_holder(lock) is None


@pytest.mark.finding("A13")
def test_a_client_gives_up_on_a_server_that_is_never_ready(
    fresh_home: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stuck = tmp_path / "python"
    stuck.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 1000\n")
    stuck.chmod(0o755)
    with monkeypatch.context() as patched:
        shorten_waits(patched)
        patched.setattr(sys, "executable", str(stuck))
        with pytest.raises(wl.ServerError, match=r"is not ready after 0\.6 seconds") as caught:
            wl.Client().server_info()
    pid = int((tmp_path / "pid").read_text())
    assert f"kill -KILL {pid}" in str(caught.value)
    log = fresh_home / "server.log"
    notice = f"windlass: Waiting for the server (process {pid}) to be ready. Its log: {log}\n"
    assert capfd.readouterr().err == notice
    os.kill(pid, signal.SIGKILL)
    assert wl.Client().server_info().pid  # the next client may start it


@pytest.mark.finding("A13")
@pytest.mark.thorough
def test_a_wait_is_reported_after_2_seconds(
    project: Project, fresh_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WINDLASS_REPORT_WAITS")
    fresh_home.mkdir()
    with holding(fresh_home / "start.lock") as holder:
        client = project.start("-c", "import windlass as wl; wl.Client().server_info()")
        assert client.stderr is not None
        began = time.monotonic()
        assert f"process {holder.pid}" in client.stderr.readline()
        assert 1.9 < time.monotonic() - began < 60
    assert client.wait(PATIENCE) == 0
    client.communicate()


@pytest.mark.finding("A13")
def test_doctor_names_the_processes_that_hold_the_locks(project: Project, fresh_home: Path) -> None:
    fresh_home.mkdir(mode=0o700)
    with holding(fresh_home / "start.lock") as start, holding(fresh_home / "server.lock") as server:
        output = " ".join(project.run(BIN / "windlass", "doctor").stdout.split())
    assert f"No client can start the server: process {start.pid}" in output
    assert f"end it: kill {start.pid}" in output
    assert f"A server is starting, or is stuck: process {server.pid}" in output
    assert "holds" not in project.run(BIN / "windlass", "doctor").stdout


def test_the_holder_of_a_lock_is_told_from_processes_that_wait_for_it(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    assert find_holder(lock) is None
    with lock.open("w") as file, lock.open("w") as other:
        fcntl.flock(file, fcntl.LOCK_EX)
        thread = threading.Thread(target=lambda: fcntl.flock(other, fcntl.LOCK_EX))
        thread.start()
        assert find_holder(lock) == os.getpid()
        fcntl.flock(file, fcntl.LOCK_UN)
        thread.join(PATIENCE)
    assert find_holder(lock) is None
    assert describe_process(os.getpid()).startswith(f"process {os.getpid()} (")
    assert describe_process(2**22 + 1) == f"process {2**22 + 1}"


@pytest.mark.finding("U22")
def test_a_command_reports_that_the_server_does_not_answer(
    project: Project, fresh_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_REPORT_WAITS", "1.5")
    pid = wl.Client().server_info().pid
    os.kill(pid, signal.SIGSTOP)
    try:
        piped = project.start(BIN / "windlass", "ls")
        terminal = Terminal(project, BIN / "windlass", "run", "--", "true", columns=200)
        report = (
            f"windlass: Waiting for the server (process {pid}), which has not answered for 1.5 s. "
            "The request fails after 60 s."
        )
        assert terminal.wait_for("Waiting for the server") == report
        assert piped.stderr is not None
        assert piped.stderr.readline() == report + "\n"
    finally:
        os.kill(pid, signal.SIGCONT)
    assert (terminal.finish(), piped.wait(PATIENCE)) == (0, 0)
    piped.communicate()


@pytest.mark.finding("A2")
def test_a_server_that_does_not_answer_is_named_after_one_time_limit(fresh_home: Path) -> None:
    pid = wl.Client().server_info().pid
    os.kill(pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        with pytest.raises(wl.ServerUnreachable) as caught:
            Transport(timeout=1.0).ask("GET", "/server", ServerInfo)
        assert time.monotonic() - began < 10
    finally:
        os.kill(pid, signal.SIGCONT)
    assert f"The server (process {pid}) runs, but did not answer within 1 seconds" in str(
        caught.value
    )
    assert "windlass server stop" in str(caught.value)
    stop_server(fresh_home)


@pytest.mark.finding("A2")
def test_a_remote_server_that_accepts_and_does_not_answer_is_asked_once() -> None:
    accepted = []

    def accept() -> None:
        while True:
            try:
                accepted.append(listener.accept()[0])
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread = threading.Thread(target=accept)
        thread.start()
        with pytest.raises(wl.ServerUnreachable, match=f"{url} did not answer within 0.5 seconds"):
            Transport(url, "token", timeout=0.5).ask("GET", "/server", ServerInfo)
        eventually(lambda: len(accepted) == 1, "the client has connected")
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(PATIENCE)
    assert len(accepted) == 1
    accepted[0].close()
