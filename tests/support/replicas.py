"""The replicas of a job on this machine, observed from outside."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil

import windlass as wl
from harness import PATIENCE, eventually
from windlass.model.records import Attempt
from windlass.worker.common.atomic_files import is_locked
from windlass.worker.common.process_identity import is_alive

# A share of the CPUs that is small enough to run tens of replicas side by side.
LITTLE = wl.Local(cpus=0.05)
# Runs until the file that is its first argument exists.
LINGER = 'while [ ! -e "$1" ]; do sleep 0.05; done'


def shell(script: str, *args: str | Path) -> wl.Command:
    """Run a shell script with arguments."""
    return wl.Command(["sh", "-c", script, "sh", *map(str, args)])


def wait_all(trials: Iterable[wl.Trial[Any]]) -> None:
    """Wait for each trial to end."""
    for trial in trials:
        trial.wait(timeout=PATIENCE)


def attempts_of(trial: wl.Trial[Any], replica: str) -> list[Attempt]:
    """The recorded attempts of a replica, such as "worker-0"."""
    return [attempt for attempt in trial.attempts if f"{attempt.role}-{attempt.index}" == replica]


def exit_codes(trial: wl.Trial[Any], replica: str) -> list[int | None]:
    """The exit code of each attempt of a replica."""
    return [attempt.exit_code for attempt in attempts_of(trial, replica)]


def reasons(trial: wl.Trial[Any]) -> list[str]:
    """The reasons of all events of a trial, in short."""
    return [event.reason for event in trial.refresh().events]


def process_of(trial: wl.Trial[Any], replica: str, attempt: int = 1) -> psutil.Process:
    """The user's process of an attempt, once it runs."""
    return psutil.Process(_wait_for_state(trial, replica, attempt)["process"]["pid"])


def supervisor_of(trial: wl.Trial[Any], replica: str, attempt: int = 1) -> psutil.Process:
    """The supervisor of an attempt, once its process runs."""
    return psutil.Process(_wait_for_state(trial, replica, attempt)["supervisor"]["pid"])


def alive_in(trial: wl.Trial[Any]) -> set[str]:
    """The attempts that have a live process, as "worker-0.2"."""
    records = set()
    for path in Path(trial.directory).glob("*/*/state.json"):
        process = _read(path).get("process")
        if process and is_alive(process["pid"], process["identity"]):
            records.add(f"{path.parts[-3]}.{path.parts[-2]}")
    return records


def left_of(trial: wl.Trial[Any]) -> list[str]:
    """The processes of a trial that still exist: supervisors and their children, also orphans."""
    supervised = [
        str(path) for path in Path(trial.directory).glob("*/*/lock") if is_locked(str(path))
    ]
    return supervised + [
        str(process) for process in psutil.process_iter() if _is_of(process, trial)
    ]


def check_gone(trial: wl.Trial[Any]) -> None:
    """Check that no process of a trial is left, or that the last ones end in a moment."""
    eventually(lambda: not left_of(trial), f"nothing is left of trial {trial.id}")


def _is_of(process: psutil.Process, trial: wl.Trial[Any]) -> bool:
    try:
        marker = process.environ().get("WINDLASS_REPLICA", "")
        is_dead = process.status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
    return bool(marker.startswith(trial.record.uid)) and not is_dead


def _wait_for_state(trial: wl.Trial[Any], replica: str, attempt: int) -> dict[str, Any]:
    path = Path(trial.directory, replica, str(attempt), "state.json")
    eventually(
        lambda: _read(path).get("stage") == "running", f"{replica} runs its attempt {attempt}"
    )
    return _read(path)


def _read(path: Path) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    return record
