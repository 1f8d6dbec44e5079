"""Metrics of trials under random kills: each point counts once."""

from __future__ import annotations

import contextlib
import math
import os
import time
from pathlib import Path

import pytest
from chaos_seed import Chaos

import windlass as wl
from harness import PATIENCE, eventually, kill_server, stop_server
from job_requests import role, submit
from server_with_faults import start_rigged

# Each replica reports its numbers, and one replica dies once in the middle.
PROGRAM = """
import random
import windlass as wl
chance = random.Random(SEED + index)
for step in range(POINTS):
    wl.report(step, n=step, replica=index)
    if chance.random() < 0.02:
        time.sleep(chance.random() * 0.03)
    if (index, attempt, step) == (1, 1, POINTS // 2):
        os.kill(os.getpid(), signal.SIGKILL)
"""


def _submit(chaos: Chaos, points: int) -> wl.Trial[None]:
    settings = f"SEED, POINTS = {chaos.random.randrange(2**32)}, {points}\n"
    workers = role(settings + PROGRAM, replicas=3, restart_policy="OnFailure")
    return submit(workers, restart_scope="replica")


def _check(trial: wl.Trial[None], points: int) -> None:
    """Check that both queries return each point of each attempt once."""
    assert trial.state == "SUCCEEDED", trial.message
    half = points // 2 + 1
    expected = {(0, 1): points, (1, 1): half, (1, 2): points, (2, 1): points}
    reported: dict[tuple[int, int], list[float]] = {}
    for point in trial.metrics("n"):
        reported.setdefault((point.index, point.attempt), []).append(point.value)
    assert reported == {key: list(range(count)) for key, count in expected.items()}
    # The second attempt of one replica started from the beginning, so no point of its first counts.
    summary = trial.summary_metrics["n"]
    assert summary.count == 3 * points
    assert summary.mean == (points - 1) / 2
    assert (summary.min, summary.max) == (0, points - 1)


@pytest.mark.thorough
def test_a_repeatedly_killed_server_counts_each_point_once(fresh_home: Path, chaos: Chaos) -> None:
    points = chaos.pick(400, 5000)
    trial = _submit(chaos, points)
    for _ in range(chaos.pick(4, 40)):
        eventually((fresh_home / "server.json").exists, "a server is there")
        time.sleep(chaos.random.uniform(0, 0.3))
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            kill_server(fresh_home)
        with contextlib.suppress(wl.ServerUnreachable):
            trial.refresh()  # starts the next server
    trial.wait(timeout=PATIENCE)
    _check(trial, points)


@pytest.mark.thorough
def test_a_server_killed_at_any_step_of_counting_counts_each_point_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chaos: Chaos
) -> None:
    points = 60
    for step in sorted(chaos.random.sample(range(1, 25), chaos.pick(3, 20))):
        home = tmp_path / f"home-{step}"
        monkeypatch.setenv("WINDLASS_HOME", str(home))
        server = start_rigged(home, f"die-counting:{step}")
        try:
            trial = _submit(chaos, points)
            trial.wait(timeout=PATIENCE)  # which starts the next server, if this one died
            _check(trial, points)
        finally:
            stop_server(home)
            server.wait(PATIENCE)


RUBBISH = {
    "noise": b"".join(os.urandom(1000) + b"\n" for _ in range(100)),
    "no-json": b"[1.0,1,\n{}\n[]\nnull\n[1,2,3,4]\n" * 100,
    "deep": b"[" * 100_000 + b"\n",
    "endless": b"x" * (3 << 20),
    "wrong": b'[1e999,1,"training",{"n":1}]\n[1,-1,"training",{"n":1}]\n[1,1.5,"t",{"n":1}]\n'
    b'[1,1,"training",{"n":"7"}]\n[1,1,"training",{"n":[1]}]\n[1,99999999999999999999,"t",{"n":1}]\n'
    b'[1,1,"",{"n":1}]\n[1,1,"training",{"":1}]\n[1,1,"training",{"a\\u0000b":1}]\n'
    b'[1,1,"training",{"%b":1}]\n[1,1,"\\ud800",{"n":1}]\n' % (b"x" * 10_000),
    "huge": b'[1,1,"training",{"huge":1.7e308}]\n' * 2_000
    + b'[1,1,"training",{"huge":-1.7e308}]\n' * 6_000,
    "torn": b'[1,1,"training",{"torn":[1,1,"training",{"torn":5}]\n',
    "names": b"".join(b'[1,1,"training",{"name-%d":1}]\n' % n for n in range(5000)),
}


@pytest.mark.parametrize(
    "kind",
    [
        kind if kind in ("wrong", "names") else pytest.param(kind, marks=pytest.mark.thorough)
        for kind in RUBBISH
    ],
)
def test_invalid_bytes_in_a_metrics_file_do_not_affect_valid_points(
    home: Path, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "rubbish").write_bytes(RUBBISH[kind])
    program = f"""
import shutil
import windlass as wl
wl.report(1, good=1)
own = os.path.join(wl.current_trial().directory, name, str(attempt), "metrics")
with open(own, "ab") as file, open({str(tmp_path / "rubbish")!r}, "rb") as rubbish:
    shutil.copyfileobj(rubbish, file)
    file.write(b"\\n")
wl.report(2, good=2)
"""
    trial = submit(role(program)).wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED"
    good = trial.summary_metrics["good"]
    assert (good.count, good.last) == (2, 2.0)
    assert [point.value for point in trial.metrics("good")] == [1.0, 2.0]
    others = set(trial.summary_metrics) - {"good"}
    if kind == "huge":
        huge = trial.summary_metrics["huge"]
        assert (huge.count, huge.min, huge.max) == (8_000, -1.7e308, 1.7e308)
        assert huge.mean is not None
        assert math.isfinite(huge.mean)
    elif kind == "torn":
        assert trial.summary_metrics["torn"].last == 5
    elif kind == "names":
        assert len(others) == 999
        [warning] = [event for event in trial.events if event.reason == "TooManyMetrics"]
        assert warning.message.startswith("a trial has summaries of at most 1000 metrics")
    else:
        assert not others


@pytest.mark.parametrize(
    "kind",
    [
        "pipe",
        *(pytest.param(kind, marks=pytest.mark.thorough) for kind in ("link", "folder", "device")),
    ],
)
def test_a_metrics_path_that_is_not_a_file_is_ignored(home: Path, kind: str) -> None:
    make = {
        "pipe": "os.mkfifo(own)",
        "link": "os.symlink('/dev/zero', own)",
        "folder": "os.mkdir(own)",
        "device": "os.symlink('/dev/tty', own)",
    }[kind]
    program = f"""
import windlass as wl
trial = wl.current_trial()
own = os.path.join(trial.directory, name, str(attempt), "metrics")
{make}
wl.report(1, loss=1)  # does not wait for a reader, nor fail
"""
    trial = submit(role(program)).wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED"
    assert dict(trial.summary_metrics) == {}
    assert list(trial.metrics()) == []
