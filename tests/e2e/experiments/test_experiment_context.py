"""Experiments as context managers: waiting, raised errors and ownership."""

from __future__ import annotations

import asyncio
import io
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from harness import Project, eventually, kill_server, stop_trials
from pseudo_terminal import PREAMBLE, Launch

SHARES_HOME = True

LITTLE = wl.Local(cpus=0.1)
FALSE = wl.Job(wl.Command(["sh", "-c", "echo no luck; exit 3"]), executor=LITTLE, name="unlucky")
TRUE = wl.Job(wl.Command(["true"]), executor=LITTLE, name="fine")


@pytest.fixture(autouse=True)
def tidy(home: Path) -> Iterator[None]:
    yield
    stop_trials(home)


def gated(gate: Path) -> wl.Job:
    """A job that waits for a file."""
    script = f'until [ -e "{gate}" ]; do sleep 0.01; done'
    return wl.Job(wl.Command(["sh", "-c", script]), executor=LITTLE, name="gated")


def test_a_block_does_not_wait_for_the_trials(home: Path, gate: Path) -> None:
    with wl.create_experiment("brief") as exp:
        trial = exp.add(gated(gate))
    assert not trial.refresh().is_finished
    gate.touch()
    assert exp.wait().state == "SUCCEEDED"


def test_a_block_with_wait_waits_for_the_trials(home: Path) -> None:
    with wl.create_experiment("waiting", wait=True) as exp:
        trials = [exp.add(TRUE) for _ in range(2)]
    assert exp.state == "SUCCEEDED"
    assert {trial.refresh().state for trial in trials} == {"SUCCEEDED"}


@pytest.mark.parametrize("in_a_block", [True, False])
def test_held_trial_objects_have_ended_after_a_wait(home: Path, in_a_block: bool) -> None:
    code = "import windlass as wl; wl.report(1, loss=0.5); wl.report(2, loss=0.25)"
    job = wl.Job(wl.Command(["python", "-c", code]), executor=LITTLE)
    exp = wl.create_experiment("held", wait=in_a_block)
    if in_a_block:
        with exp:
            trials = [exp.add(job) for _ in range(3)]
    else:
        trials = [exp.add(job) for _ in range(3)]
        exp.wait()
    assert [trial.state for trial in trials] == ["SUCCEEDED"] * 3
    assert [trial.summary_metrics["loss"].last for trial in trials] == [0.25] * 3


def test_a_failed_trial_has_state_failed_when_the_block_raises(home: Path) -> None:
    exp = wl.create_experiment("unlucky", wait=True)
    with pytest.raises(wl.ExperimentFailed), exp:
        trial = exp.add(FALSE)
    assert trial.state == "FAILED"


def test_an_added_trial_counts_at_once(home: Path, gate: Path) -> None:
    exp = wl.create_experiment("counting")
    assert (exp.state, exp.trial_count) == ("EMPTY", 0)
    assert repr(exp) == f"<Experiment {exp.id} counting: 0 trials>"
    exp.add(gated(gate))
    assert repr(exp) == f"<Experiment {exp.id} counting>"  # its state is not known here
    assert (exp.state, exp.trial_count) == ("RUNNING", 1)
    exp.add(gated(gate))
    assert sum(exp.states.values()) == 2
    gate.touch()
    assert repr(exp.wait()) == f"<Experiment {exp.id} counting: 2 trials (2 succeeded)>"


def test_an_experiment_with_wait_raises_its_failed_trials_with_their_logs(home: Path) -> None:
    exp = wl.create_experiment("unlucky", wait=True)
    with pytest.raises(wl.ExperimentFailed) as raised, exp:
        exp.add(TRUE)
        trial = exp.add(FALSE)
        exp.add(FALSE, auxiliary=True)  # not part of it
    message = str(raised.value)
    assert f"Experiment {exp.id} (unlucky): 1 of 2 trials did not succeed." in message
    assert f"trial {trial.id} (unlucky): failed: " in message
    assert "exit code 3" in message
    assert "no luck" in message  # its last output
    assert f"windlass logs {trial.id}" in message
    assert raised.value.trial_ids == (trial.id,)
    assert raised.value.experiment_id == exp.id
    assert exp.state == "FAILED"


def test_an_exception_of_the_block_takes_precedence(home: Path, gate: Path) -> None:
    with pytest.raises(ZeroDivisionError), wl.create_experiment("raising", wait=True) as exp:
        trial = exp.add(gated(gate))
        _ = 1 / 0
    assert not trial.refresh().is_finished  # the block does not wait for it, and it continues
    gate.touch()
    assert trial.wait().state == "SUCCEEDED"


def test_an_exception_of_the_block_waits_for_generators_and_prints_a_notice(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_reported = threading.Event()

    class PrintedText(io.StringIO):
        def write(self, text: str) -> int:
            is_reported.set()
            return super().write(text)

    def build(trial: wl.Trial[Any]) -> None:
        is_reported.wait()
        trial.add(TRUE)

    stream = PrintedText()
    monkeypatch.setattr("sys.stderr", stream)
    with pytest.raises(ZeroDivisionError), wl.create_experiment("patient") as exp:
        trial = exp.add(build)
        _ = 1 / 0
    assert len(trial.children) == 1
    waits = "ZeroDivisionError was raised; waiting for a generator. Ctrl-C leaves at once.\n"
    assert stream.getvalue() == waits


def test_an_experiment_that_is_being_built_is_not_over(home: Path) -> None:
    with wl.create_experiment("open") as exp:
        assert exp.refresh().state == "RUNNING"
        exp.add(TRUE).wait()
        assert exp.refresh().state == "RUNNING"
        assert exp.wait().states == {"SUCCEEDED": 1}  # a wait covers the existing trials
    assert exp.state == "SUCCEEDED"


def test_an_experiment_is_built_in_several_blocks_and_by_several_objects(home: Path) -> None:
    with wl.create_experiment("again") as exp:
        exp.add(TRUE)
        with wl.get_experiment(exp.id) as same:
            same.add(TRUE)
        assert exp.refresh().state == "RUNNING"
    with exp:
        exp.add(TRUE)
    assert exp.wait().states == {"SUCCEEDED": 3}


def test_a_killed_author_releases_its_experiment(home: Path, project: Project) -> None:
    project.write(
        "hold.py",
        """
        import time, windlass as wl
        with wl.create_experiment("held") as exp:
            print(exp.id, flush=True)
            time.sleep(600)
        """,
    )
    author = project.start("hold.py")
    assert author.stdout is not None
    exp = wl.get_experiment(int(author.stdout.readline()))
    assert exp.state == "RUNNING"
    author.send_signal(signal.SIGKILL)
    author.communicate()
    eventually(lambda: exp.refresh().state == "EMPTY", "it was let go")


def test_ctrl_c_while_waiting_leaves_the_trials_running(
    home: Path, project: Project, launch: Launch, gate: Path
) -> None:
    project.write(
        "wait.py",
        f"""{PREAMBLE}
script = f'until [ -e "{{sys.argv[1]}}" ]; do sleep 0.01; done'
with wl.create_experiment("left-by-ctrl-c", wait=True) as exp:
    exp.add(wl.Job(wl.Command(["sh", "-c", script]), executor=wl.Local(cpus=0.1), name="gated"))
""",
    )
    terminal = launch("wait.py", gate)
    terminal.wait_for("1 trial: 1 running")
    terminal.press(b"\x03")
    assert terminal.finish() == -signal.SIGINT
    terminal_said = [line for line in terminal.lines if line.startswith("Left experiment")]
    exp = wl.get_experiment("left-by-ctrl-c")
    assert terminal_said == [
        f"Left experiment {exp.id} (left-by-ctrl-c): 1 trial goes on. To stop it: "
        f"windlass stop --experiment {exp.id}"
    ]
    assert not [line for line in terminal.lines if "transport.py" in line]  # no frames of Windlass
    assert exp.state == "RUNNING"
    gate.touch()
    assert exp.wait().state == "SUCCEEDED"


# -- asynchronous ------------------------------------------------------------------------


def test_an_async_block_waits_with_the_loop_free(home: Path, gate: Path) -> None:
    async def main() -> wl.Experiment:
        async with wl.create_experiment("async", wait=True) as exp:
            exp.add(gated(gate))
            asyncio.get_running_loop().call_later(0.2, gate.touch)
        return exp

    assert asyncio.run(main()).state == "SUCCEEDED"


def test_an_async_block_raises_the_failure(home: Path) -> None:
    async def flawed(trial: wl.Trial[Any]) -> None:
        raise ValueError("as asked")

    async def launching() -> None:
        async with wl.create_experiment("flawed") as exp:
            exp.add(flawed)

    async def waiting() -> None:
        async with wl.create_experiment("unlucky", wait=True) as exp:
            exp.add(FALSE)

    with pytest.raises(wl.LaunchFailed, match="as asked"):
        asyncio.run(launching())
    with pytest.raises(wl.ExperimentFailed, match="1 of 1 trial did not succeed"):
        asyncio.run(waiting())


def test_a_cancelled_async_block_leaves_at_once(home: Path, gate: Path) -> None:
    async def build(trial: wl.Trial[Any]) -> None:
        await trial.add(gated(gate))

    async def main() -> wl.Trial[Any]:
        trials = []

        async def block() -> None:
            async with wl.create_experiment("cancelled") as exp:
                trials.append(exp.add(build))

        task = asyncio.create_task(block())
        while not trials or not await asyncio.to_thread(lambda: trials[0].children):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return trials[0]

    trial = asyncio.run(main())
    assert trial.wait(60).state == "FAILED"
    assert "CancelledError" in trial.message
    [child] = trial.children
    assert not child.is_finished


# -- auxiliary trials ----------------------------------------------------------------------

FOREVER = wl.Job(wl.Command(["sleep", "600"]), executor=LITTLE, name="monitor")


def test_an_auxiliary_trial_ends_with_the_experiment(home: Path, gate: Path) -> None:
    with wl.create_experiment("watched", wait=True) as exp:
        monitor = exp.add(FOREVER, auxiliary=True)
        trials = [exp.add(gated(gate)) for _ in range(2)]
        eventually(lambda: monitor.refresh().state == "RUNNING", "it runs")
        gate.touch()
    assert monitor.wait(60).state == "STOPPED"
    assert "its experiment is over" in monitor.message
    assert {trial.refresh().state for trial in trials} == {"SUCCEEDED"}
    assert exp.state == "SUCCEEDED"  # auxiliary trials do not count
    assert (exp.trial_count, exp.record.auxiliary) == (2, 1)


def test_without_a_block_an_auxiliary_trial_ends_after_the_last_ordinary_one(
    home: Path, gate: Path
) -> None:
    exp = wl.create_experiment("plain")
    exp.add(TRUE).wait()
    monitor = exp.add(FOREVER, auxiliary=True)  # for the next trials
    second, first = exp.add(gated(gate)), exp.add(TRUE)
    first.wait()
    eventually(lambda: monitor.refresh().state == "RUNNING", "it runs")
    assert not second.refresh().is_finished
    gate.touch()
    assert monitor.wait(60).state == "STOPPED"


def test_auxiliary_trials_stay_while_the_experiment_is_being_built(home: Path) -> None:
    with wl.create_experiment("staying") as exp:
        monitor = exp.add(FOREVER, auxiliary=True)
        exp.add(TRUE).wait()
        eventually(lambda: monitor.refresh().state == "RUNNING", "it runs")
        exp.add(TRUE).wait()
        assert monitor.refresh().state == "RUNNING"
    assert monitor.wait(60).state == "STOPPED"


def test_an_auxiliary_trial_does_not_affect_the_outcome(home: Path) -> None:
    with wl.create_experiment("part", wait=True) as exp:
        exp.add(FALSE, auxiliary=True)
        exp.add(TRUE)
    assert exp.state == "SUCCEEDED"


def test_auxiliary_trials_of_a_block_without_others_end_with_it(home: Path) -> None:
    with wl.create_experiment("alone") as exp:
        monitor = exp.add(FOREVER, auxiliary=True)
    assert monitor.wait(60).state == "STOPPED"


def test_auxiliary_trials_end_after_the_author_is_killed(
    home: Path, project: Project, gate: Path
) -> None:
    project.write(
        "watch.py",
        f"""{PREAMBLE}
little = wl.Local(cpus=0.1)
script = f'until [ -e "{{sys.argv[1]}}" ]; do sleep 0.01; done'
with wl.create_experiment("orphans") as exp:
    exp.add(wl.Job(wl.Command(["sleep", "600"]), executor=little, name="monitor"), auxiliary=True)
    exp.add(wl.Job(wl.Command(["sh", "-c", script]), executor=little, name="gated"))
    print("added", flush=True)
    time.sleep(600)
""",
    )
    author = project.start("watch.py", gate)
    assert author.stdout is not None
    assert author.stdout.readline() == "added\n"
    author.send_signal(signal.SIGKILL)
    author.communicate()
    [monitor] = wl.list_trials(name="monitor", experiment="orphans")
    gate.touch()
    assert monitor.wait(60).state == "STOPPED"


@pytest.mark.thorough
def test_auxiliary_trials_end_after_the_server_is_killed(fresh_home: Path, gate: Path) -> None:
    exp = wl.create_experiment("restarted")
    monitor = exp.add(FOREVER, auxiliary=True)
    done = gate.with_name("done")
    script = f'until [ -e "{gate}" ]; do sleep 0.01; done; touch "{done}"'
    trial = exp.add(wl.Job(wl.Command(["sh", "-c", script]), executor=LITTLE))
    eventually(lambda: trial.refresh().state == "RUNNING", "it runs")
    kill_server(fresh_home)
    gate.touch()
    eventually(done.exists, "the last trial ended while no server ran")
    assert monitor.wait(90).state == "STOPPED"
    assert exp.refresh().state == "SUCCEEDED"


@pytest.mark.thorough
def test_auxiliary_trials_end_if_the_block_ends_right_after_a_kill_of_the_server(
    fresh_home: Path,
) -> None:
    """The new server does not know the leases yet, but remembers releases in the meantime."""
    with wl.create_experiment("alone") as exp:
        monitor = exp.add(FOREVER, auxiliary=True)
        eventually(lambda: monitor.refresh().state == "RUNNING", "it runs")
        kill_server(fresh_home)
    assert monitor.wait(60).state == "STOPPED"
