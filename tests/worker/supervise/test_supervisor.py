"""The supervisor as a program: its lock, its signals, its notifications, its records."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from supervisor_process import PATIENCE, SUPERVISOR, Attempt, eventually

from windlass.worker.common.atomic_files import take_lock, write_json
from windlass.worker.common.process_identity import is_alive

UNTIL_TOLD = """
    import os, time
    print("ready", os.getpid())
    while not os.path.exists("go"):
        time.sleep(0.01)
"""


def test_the_record_of_a_normal_end(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path, "print('hello')")
    record = attempt.run()
    assert (record["exit_code"], record["signal"], record["reason"]) == (0, "", "")
    assert record["started"] <= record["ended"]
    assert attempt.lines() == [("stdout", "hello")]
    modes = {path.name: path.stat().st_mode & 0o777 for path in attempt.dir.iterdir()}
    modes.pop("launch.json")
    assert set(modes.values()) == {0o600}


def test_a_second_supervisor_exits_at_once(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path, UNTIL_TOLD)
    first = attempt.supervise()
    attempt.wait_for_text("ready")
    assert attempt.supervise().wait(PATIENCE) == 0
    assert first.poll() is None
    (attempt.work / "go").touch()
    assert first.wait(PATIENCE) == 0
    assert len(attempt.lines()) == 1
    record = attempt.json("exit.json")
    attempt.run()
    assert attempt.json("exit.json") == record


def test_many_supervisors_at_once_run_it_once(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path, "open('ran', 'a').write('x')")
    for supervisor in [attempt.supervise() for _ in range(6)]:
        assert supervisor.wait(PATIENCE) == 0
    assert (attempt.work / "ran").read_text() == "x"


def test_an_attempt_of_a_killed_supervisor_is_not_started_again(tmp_path: Path) -> None:
    attempt = Attempt(
        tmp_path, "open('ran', 'a').write('x'); print('ready'); import time; time.sleep(600)"
    )
    first = attempt.supervise()
    attempt.wait_for_text("ready")
    first.kill()
    first.wait(PATIENCE)
    # A late second supervisor, which a later server started.
    assert attempt.supervise().wait(PATIENCE) == 0
    assert (attempt.work / "ran").read_text() == "x"
    assert not (attempt.dir / "exit.json").exists()  # the server records the end with the reason


def test_its_state_names_its_processes_unambiguously(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path, UNTIL_TOLD)
    supervisor = attempt.supervise()
    attempt.wait_for_text("ready")
    eventually(lambda: attempt.json("state.json")["stage"] == "running", "it runs")
    state = attempt.json("state.json")
    assert state["supervisor"]["pid"] == supervisor.pid
    for which in ("supervisor", "process"):
        assert is_alive(state[which]["pid"], state[which]["identity"])
    (attempt.work / "go").touch()
    supervisor.wait(PATIENCE)
    assert not is_alive(state["process"]["pid"], state["process"]["identity"])


def test_terminal_signals_are_ignored_and_not_passed_on(tmp_path: Path) -> None:
    attempt = Attempt(
        tmp_path,
        "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
        + UNTIL_TOLD.replace("\n    ", "\n"),
    )
    supervisor = attempt.supervise()
    attempt.wait_for_text("ready")
    for number in (signal.SIGINT, signal.SIGHUP):
        supervisor.send_signal(number)
    (attempt.work / "go").touch()
    supervisor.wait(PATIENCE)
    assert attempt.json("exit.json")["exit_code"] == 0
    assert ("stdout", "True") in attempt.lines()


def test_an_earlier_stop_is_obeyed(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path, "open('ran', 'w')")
    write_json(str(attempt.dir / "stop.json"), {"grace": 5, "reason": ""})
    record = attempt.run()
    assert (record["reason"], record["exit_code"]) == ("Stopped", None)
    assert not (attempt.work / "ran").exists()


def test_a_halted_process_receives_the_stop(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path, UNTIL_TOLD)
    supervisor = attempt.supervise()
    attempt.wait_for_text("ready")
    pid = int(attempt.lines()[0][1].split()[1])
    os.kill(pid, signal.SIGSTOP)
    supervisor.send_signal(signal.SIGTERM)  # without an order: the default grace period
    supervisor.wait(PATIENCE)
    record = attempt.json("exit.json")
    assert (record["reason"], record["signal"]) == ("Stopped", "SIGTERM")


RECORDING = """
    import os, signal, subprocess, sys, time
    def say(text):
        os.write(1, f"{text}\\n".encode())  # in one piece, because several processes write
    def record(number, frame):
        say(f"{os.environ['NAME']} {signal.Signals(number).name}")
        if number == signal.SIGTERM:
            sys.exit(3)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, record)
    if os.environ["NAME"] == "main":
        for name, detached in (("child", False), ("daemon", True)):
            subprocess.Popen(
                [sys.executable, "-c", os.environ["SCRIPT"]],
                env={**os.environ, "NAME": name},
                start_new_session=detached,
            )
    say(f"ready {os.environ['NAME']}")
    while True:
        time.sleep(0.01)
"""


@pytest.mark.finding("U5")
def test_an_interrupting_stop_sends_sigint_to_the_process_group_then_sigterm_to_all(
    tmp_path: Path,
) -> None:
    env = {"NAME": "main", "SCRIPT": textwrap.dedent(RECORDING)}
    attempt = Attempt(tmp_path, RECORDING, env=env)
    supervisor = attempt.supervise()
    for name in ("main", "child", "daemon"):
        attempt.wait_for_text(f"ready {name}")
    write_json(str(attempt.dir / "stop.json"), {"grace": 2, "interrupt": True})
    begun = time.monotonic()
    supervisor.send_signal(signal.SIGTERM)
    attempt.wait_for_text("child SIGINT")
    supervisor.send_signal(signal.SIGTERM)  # the same request again changes nothing
    attempt.wait_for_text("main SIGTERM")
    assert time.monotonic() - begun > 0.9
    supervisor.wait(PATIENCE)
    record = attempt.json("exit.json")
    assert (record["reason"], record["exit_code"]) == ("Stopped", 3)
    heard = sorted(text for _, text in attempt.lines() if not text.startswith("ready"))
    assert heard == [
        *("child SIGINT", "child SIGTERM", "daemon SIGTERM", "main SIGINT", "main SIGTERM")
    ]


@pytest.mark.finding("U5")
def test_a_plain_stop_after_an_interrupting_one_sends_sigterm_at_once(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path, RECORDING, env={"NAME": "alone", "SCRIPT": ""})
    supervisor = attempt.supervise()
    attempt.wait_for_text("ready alone")
    for interrupt in (True, False):
        order = {"grace": 3600, "interrupt": interrupt}
        write_json(str(attempt.dir / "stop.json"), order)
        supervisor.send_signal(signal.SIGTERM)
        attempt.wait_for_text(f"alone {'SIGINT' if interrupt else 'SIGTERM'}")
    supervisor.wait(PATIENCE)
    assert attempt.json("exit.json")["exit_code"] == 3


@pytest.mark.thorough
def test_the_time_before_the_process_counts_towards_the_deadline(tmp_path: Path) -> None:
    """The deadline applies to the job, including restoring, installing and waiting."""
    head_start = 2.0  # the time that the server has
    attempt = Attempt(tmp_path, "import time; time.sleep(600)", deadline=2.0)
    attempt.work.mkdir()
    lock = take_lock(f"{attempt.work}.lock")
    assert lock is not None
    supervisor, begun = attempt.supervise(), time.monotonic()
    eventually(lambda: time.monotonic() > begun + 2.0 + head_start, "its time is up")
    assert attempt.json("state.json")["message"] == "waiting for the attempt before"
    os.close(lock)
    supervisor.wait(PATIENCE)
    record = attempt.json("exit.json")
    assert record["reason"] == "DeadlineExceeded"
    assert record["ended"] - record["started"] < 2.0 + head_start


def test_notifications_reach_a_server_that_starts_later(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path, UNTIL_TOLD)
    supervisor = attempt.supervise()
    attempt.wait_for_text("ready")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(tmp_path / "n.sock"))
        server.settimeout(PATIENCE)
        write_json(str(tmp_path / "server.json"), {"nudge": str(tmp_path / "n.sock")})
        (attempt.work / "go").touch()
        nudge = json.loads(server.recv(4096))
        assert (nudge["trial_id"], nudge["uid"], nudge["attempt"]) == (1, "u1", 1)
    supervisor.wait(PATIENCE)


def test_a_pipe_held_open_from_outside_does_not_delay_the_end(tmp_path: Path) -> None:
    # Passes its stdout to a process of the test, which is not its child.
    script = f"""
        import array, os, socket
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect({str(tmp_path / "s.sock")!r})
            peer.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1]))])
            peer.recv(1)
    """
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s.sock"))
        listener.listen()
        attempt = Attempt(tmp_path, script)
        supervisor = attempt.supervise()
        peer, _ = listener.accept()
        _, [kept], _, _ = socket.recv_fds(peer, 1, 1)
        peer.send(b"x")
        peer.close()
        assert supervisor.wait(PATIENCE) == 0
        os.close(kept)
    assert attempt.json("exit.json")["exit_code"] == 0


def stored(home: Path, data: bytes) -> str:
    """Store some bytes as a blob and return its path."""
    digest = hashlib.sha256(data).hexdigest()
    path = home / "blobs" / digest[:2] / digest
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return str(path)


def test_code_that_cannot_be_restored_is_a_failure_to_start(tmp_path: Path) -> None:
    manifest = json.dumps({"files": [["a.py", "f", "0" * 64, 3]], "version": 1})
    record = Attempt(tmp_path, "pass", tree=stored(tmp_path, manifest.encode())).run()
    assert record["reason"] == "StartFailed"
    assert "'a.py' is missing" in record["message"]


def test_a_hostile_manifest_writes_nothing_outside(tmp_path: Path) -> None:
    content = b"owned"
    stored(tmp_path, content)
    files = [["../../escaped", "f", hashlib.sha256(content).hexdigest(), 5]]
    manifest = json.dumps({"files": files, "version": 1})
    record = Attempt(tmp_path, "pass", tree=stored(tmp_path, manifest.encode())).run()
    assert record["reason"] == "StartFailed"
    assert "is not a path inside a tree" in record["message"]
    assert not list(tmp_path.rglob("escaped"))


def test_the_log_reports_lines_lost_on_a_full_disk(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path, "for i in range(5000): print('x' * 99)")

    def limit() -> None:
        # Like a full disk: no file may grow over 100 kB.
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))

    supervisor = subprocess.Popen(
        [sys.executable, "-I", "-S", str(SUPERVISOR), str(attempt.dir)], preexec_fn=limit
    )
    assert supervisor.wait(PATIENCE) == 0
    record = attempt.json("exit.json")
    assert record["exit_code"] == 0
    assert "disk is full" in record["message"]
    lines = attempt.lines()
    assert 800 < len(lines) < 1000
    assert {text for _, text in lines} == {"x" * 99}


@pytest.mark.skipif(sys.platform != "linux", reason="tells the memory of a process by /proc")
def test_large_output_does_not_accumulate_in_memory(tmp_path: Path) -> None:
    attempt = Attempt(
        tmp_path,
        """
        import os, time
        for _ in range(64):
            os.write(1, b"y" * (1024 * 1024))
        print("ready")
        while not os.path.exists("go"):
            time.sleep(0.01)
        """,
    )
    supervisor = attempt.supervise()
    eventually(
        lambda: (
            (attempt.dir / "log").exists()
            and (attempt.dir / "log").read_bytes()[-100:].find(b"ready") >= 0
        ),
        "all is written",
    )
    status = Path(f"/proc/{supervisor.pid}/status").read_text()
    [peak] = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    assert int(peak) < 40_000  # kB; the output was 64 MB
    (attempt.work / "go").touch()
    supervisor.wait(PATIENCE)
