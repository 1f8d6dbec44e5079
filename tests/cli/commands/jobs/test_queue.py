"""`windlass queue`, `priority` and `tasks`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cli.shells import Shell
from cli.terminals import eventually
from job_requests import role
from windlass.client.resources.trial.trial import Trial
from windlass.model.hardware.resources import Resources

ALL = Resources(cpus=16)


@pytest.fixture
def shell(module_shell: Shell) -> Shell:
    """A shell with its own home, so that no other trials use the CPUs."""
    return module_shell


@pytest.fixture
def line(shell: Shell) -> Iterator[list[Trial[Any]]]:
    """One trial that has all CPUs, and two queued trials."""
    trials = [shell.submit_roles(role("signal.pause()", resources=ALL)) for _ in range(3)]
    eventually(lambda: trials[0].refresh().state == "RUNNING", "one has the machine")
    yield trials
    for trial in reversed(trials):
        trial.stop(grace=0)
    for trial in trials:
        trial.wait(60)


def test_the_queue_is_shown_and_changed(shell: Shell, line: list[Trial[Any]]) -> None:
    holder, first, second = line
    shown = shell.good("queue").splitlines()
    assert shown[0].split() == ["#", "ID", "NAME", "PRIORITY", "AGE", "WAITS", "FOR"]
    assert shown[1].endswith("needs 16 CPUs, 0 free")
    assert shown[2].endswith(f"needs 16 CPUs, 0 free; after trial {first.id}")
    output = shell.good("queue", "move", str(second.id), "--ahead-of", str(first.id))
    assert output == (
        f"Trial {second.id} (mnist) is now directly ahead of trial {first.id}: "
        "needs 16 CPUs, 0 free; 1st in queue.\n"
    )
    listed = shell.json("queue")
    assert [(entry["position"], entry["trial"]["id"]) for entry in listed] == [
        (1, second.id),
        (2, first.id),
    ]
    assert listed[1]["ahead"] == second.id
    output = shell.good("priority", str(second.id), "-3")
    assert output == (
        f"Trial {second.id} (mnist) has the priority -3: needs 16 CPUs, 0 free; 2nd in queue.\n"
    )
    output = shell.good("priority", str(holder.id), "4")
    assert "it is running, so the priority matters when it waits again" in output
    assert f" {first.id} " in shell.good("queue", "-n", "1").splitlines()[-1]


def test_a_trial_that_cannot_be_moved_is_reported(shell: Shell, line: list[Trial[Any]]) -> None:
    holder, first, _ = line
    refused = shell("queue", "move", str(holder.id), "--ahead-of", str(first.id))
    assert refused.returncode == 1
    assert f"Trial {holder.id} (mnist) is RUNNING" in refused.stderr
    assert shell("queue", "move", str(first.id)).returncode == 2
    assert shell("priority", str(first.id), "much").returncode == 2


def test_tasks_are_listed(shell: Shell, line: list[Trial[Any]]) -> None:
    holder, first, _ = line
    head, task = shell.good("tasks", str(holder.id)).splitlines()
    assert head.split()[:4] == ["TASK", "ATTEMPT", "STATE", "CPUS"]
    assert task.split()[:4] == ["worker-0", "1", "Running", "16"]
    assert shell.good("tasks", str(first.id)).splitlines()[1].split() == [
        "worker-0",
        "Queued",
        "16",
    ]
    [record] = shell.json("tasks", str(holder.id))
    assert (record["role"], record["cpus"], record["state"]) == ("worker", 16.0, "Running")


def test_an_empty_queue_is_reported(shell: Shell) -> None:
    assert shell("queue").stderr == "No trial is waiting.\n"
