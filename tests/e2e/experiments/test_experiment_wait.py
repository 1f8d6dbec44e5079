"""Waiting for an experiment: its end, its progress, and interrupts."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from steps import wait_for

import windlass as wl
from harness import BIN, Project, eventually, kill_server, stop_trials
from pseudo_terminal import PREAMBLE, Launch

SHARES_HOME = True

SWEEP = f"""{PREAMBLE}

experiment = wl.create_experiment("sweep")

@wl.run(experiment="sweep", cpus=0.1)
def train(lr, gate, layers=2):
    wait_for(gate)
    if lr == 0.2:
        raise ValueError("diverged")

for lr in (0.1, 0.2):
    train.submit(lr, sys.argv[1])
"""


@pytest.fixture(autouse=True)
def tidy(home: Path) -> Iterator[None]:
    yield
    stop_trials(home)


def test_wait_returns_the_experiment_when_all_trials_have_ended(home: Path) -> None:
    experiment = wl.create_experiment("mixed")
    work = wl.run(lambda x: 1 / x, experiment="mixed", cpus=0.1, name="work")
    for number in (1, 0, 2):
        work.submit(number)
    assert experiment.wait() is experiment
    assert experiment.state == "FAILED"
    assert experiment.states == {"SUCCEEDED": 2, "FAILED": 1}


def test_an_experiment_without_trials_has_nothing_to_wait_for(home: Path) -> None:
    assert wl.create_experiment("empty").wait(timeout=60).state == "EMPTY"


def test_a_wait_that_times_out_ends_and_the_trials_continue(home: Path, gate: Path) -> None:
    experiment = wl.create_experiment("slow")
    trial = wl.run(wait_for, experiment="slow", cpus=0.1).submit(str(gate))
    with pytest.raises(wl.WaitTimeout, match="did not end within 100ms"):
        experiment.wait(timeout=0.1)
    gate.touch()
    assert experiment.wait().state == "SUCCEEDED"
    assert trial.refresh().state == "SUCCEEDED"


@pytest.mark.thorough
def test_a_wait_continues_over_a_restart_of_the_server(fresh_home: Path, gate: Path) -> None:
    experiment = wl.create_experiment("restarted")
    trial = wl.run(wait_for, experiment="restarted", cpus=0.1).submit(str(gate))
    waiting = threading.Thread(target=experiment.wait)
    waiting.start()
    eventually(lambda: trial.refresh().state == "RUNNING", "it runs")
    kill_server(fresh_home)
    gate.touch()
    waiting.join()
    assert experiment.state == "SUCCEEDED"


def test_several_experiments_can_be_awaited_at_once(home: Path, gate: Path) -> None:
    experiment = wl.create_experiment("awaited")
    wl.run(wait_for, experiment="awaited", cpus=0.1).submit(str(gate))

    async def both() -> str:
        waiting = asyncio.ensure_future(_state(experiment))
        await asyncio.sleep(0)
        gate.touch()  # the loop is free meanwhile
        return await waiting

    async def _state(waited: wl.Experiment) -> str:
        return (await waited).state

    assert asyncio.run(both()) == "SUCCEEDED"


def test_stop_stops_only_the_trials_of_the_experiment(home: Path, gate: Path) -> None:
    experiment, other = wl.create_experiment("stopped"), wl.create_experiment("other")
    trials = [
        wl.run(wait_for, experiment="stopped", cpus=1).submit(str(gate)) for _ in range(8)
    ]  # some of them are queued
    bystander = wl.run(wait_for, experiment="other", cpus=0.1).submit(str(gate))
    eventually(lambda: trials[0].refresh().state == "RUNNING", "it runs")
    experiment.stop(reason="enough")
    assert experiment.wait().state == "STOPPED"
    assert {trial.refresh().state for trial in trials} == {"STOPPED"}
    assert sum(trial.started is not None for trial in trials) < len(trials)
    gate.touch()
    assert other.wait().state == "SUCCEEDED"
    assert bystander.refresh().state == "SUCCEEDED"


def test_a_terminal_shows_a_progress_table_and_then_the_outcome(
    home: Path, project: Project, launch: Launch, gate: Path
) -> None:
    project.write("sweep.py", SWEEP + "experiment.wait()\nprint('it is', experiment.state)\n")
    terminal = launch("sweep.py", gate)
    terminal.wait_for("2 trials: 2 running")
    line = terminal.wait_for("lr=0.2")
    assert "RUNNING" in line
    assert "layers" not in line  # equal in all trials
    gate.touch()
    assert terminal.finish() == 0
    head, failed, summary = terminal.lines[-3:]
    assert "2 trials: 1 succeeded, 1 failed" in head
    assert "FAILED  train lr=0.2: ValueError: diverged" in failed
    assert summary == "it is FAILED"
    assert not any("RUNNING" in line for line in terminal.lines)


def test_in_a_narrow_terminal_a_long_name_is_cut_before_the_counts(
    home: Path, project: Project, launch: Launch, gate: Path
) -> None:
    sweep = SWEEP.replace('"sweep"', '"of-all-widths-and-depths-and-rates"')
    project.write("sweep.py", sweep + "experiment.wait()\n")
    terminal = launch("sweep.py", gate, columns=55)
    assert "(of-all-" in terminal.wait_for("…  2 trials: 2 running")
    gate.touch()
    assert terminal.finish() == 0


def test_a_pipe_gets_only_the_outcome(home: Path, project: Project, gate: Path) -> None:
    project.write("sweep.py", SWEEP + "experiment.wait()\n")
    gate.touch()
    done = project.python("sweep.py", gate)
    assert done.stdout == ""
    head, failed = done.stderr.splitlines()
    assert "2 trials: 1 succeeded, 1 failed" in head
    assert "FAILED  train lr=0.2: ValueError: diverged" in failed
    assert "\x1b" not in done.stderr


def test_ctrl_c_detaches_and_prints_the_stop_command(
    home: Path, project: Project, launch: Launch, gate: Path
) -> None:
    project.write("sweep.py", SWEEP + "experiment.wait()\n")
    terminal = launch("sweep.py", gate)
    terminal.wait_for("2 trials: 2 running")
    terminal.press(b"\x03")
    assert terminal.finish() == -signal.SIGINT
    left_line = next(line for line in terminal.lines if line.startswith("Left experiment"))
    number = left_line.split()[2]
    assert left_line == (
        f"Left experiment {number} (sweep): 2 trials go on. To stop them: "
        f"windlass stop --experiment {number}"
    )
    experiment = wl.get_experiment(int(number))
    assert experiment.state == "RUNNING"
    done = project.run(BIN / "windlass", "stop", "--experiment", number)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("is stopped.") == 2
    assert experiment.refresh().state == "STOPPED"
