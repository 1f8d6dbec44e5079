"""An embedded server that nobody needs exits, and nobody notices."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from pathlib import Path

import psutil
import pytest

import windlass as wl
from harness import PATIENCE, eventually, windlass
from windlass.worker.common.atomic_files import is_locked

pytestmark = pytest.mark.finding("U29")

LITTLE = wl.Local(cpus=0.05)


def server_pid(home: Path) -> int:
    return int(json.loads((home / "server.json").read_text())["pid"])


def test_the_server_and_its_launchers_exit_after_the_idle_time(
    fresh_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_SERVER_IDLE", "0.5s")
    go = tmp_path / "go"
    waits = f"while [ ! -e {go} ]; do sleep 0.05; done"
    trial = wl.Job(wl.Command(["sh", "-c", waits]), executor=LITTLE).submit()
    process = psutil.Process(server_pid(fresh_home))
    family = [process, *process.children()]
    time.sleep(1.2)
    assert process.is_running(), "a trial runs"
    followed = wl.get_trial(trial.id)
    go.touch()
    followed.wait(PATIENCE)
    psutil.wait_procs(family, timeout=PATIENCE)
    assert not any(process.is_running() for process in family)
    assert not (fresh_home / "server.json").exists()
    listed = windlass("ls", "--json", env={"WINDLASS_SERVER_IDLE": "never"})
    assert (listed.returncode, listed.stderr) == (0, "")
    assert json.loads(listed.stdout)[0]["state"] == "SUCCEEDED"


def test_a_server_with_a_very_short_idle_time_serves_the_client_that_started_it(
    fresh_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_SERVER_IDLE", "1ms")
    trial = wl.Job(wl.Command(["true"]), executor=LITTLE).submit()
    assert trial.wait(PATIENCE).state == "SUCCEEDED"


def test_a_suspended_trial_needs_no_server(
    fresh_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_SERVER_IDLE", "0.5s")
    trial = wl.Job(wl.Command(["true"]), executor=LITTLE, suspend=True).submit()
    lock = str(fresh_home / "server.lock")
    eventually(lambda: not is_locked(lock), "the server has exited")
    assert trial.resume().wait(PATIENCE).state == "SUCCEEDED"


@pytest.mark.parametrize("rounds", [12, pytest.param(200, marks=pytest.mark.thorough)])
def test_no_submission_is_lost_while_the_server_exits(
    fresh_home: Path, monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    monkeypatch.setenv("WINDLASS_SERVER_IDLE", "0.2s")
    seed = int(os.environ.get("WINDLASS_CHAOS_SEED", random.randrange(10**6)))
    print("WINDLASS_CHAOS_SEED:", seed)
    chance = random.Random(seed)
    ids: list[int] = []
    failures: list[BaseException] = []
    pauses = [[0.15 + chance.random() * 0.3 for _ in range(rounds // 2)] for _ in range(2)]

    def submit(own_pauses: list[float]) -> None:
        for pause in own_pauses:
            time.sleep(pause)
            try:
                ids.append(wl.Job(wl.Command(["true"]), executor=LITTLE).submit().id)
            except BaseException as error:
                failures.append(error)
                raise

    threads = [threading.Thread(target=submit, args=(own,)) for own in pauses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not failures
    lock = str(fresh_home / "server.lock")
    # Whatever was submitted last runs without another client.
    eventually(lambda: not is_locked(lock), "the last server has exited")
    exits = list(fresh_home.glob("trials/*/main-0/1/exit.json"))
    assert len(exits) == len(ids) == len(set(ids)) == rounds
    monkeypatch.setenv("WINDLASS_SERVER_IDLE", "never")
    assert {wl.get_trial(number).state for number in ids} == {"SUCCEEDED"}
