"""Ctrl-C stops the trial of a blocking call, and no other trial."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import psutil
import pytest

import windlass as wl
from harness import BIN, PATIENCE, Project, eventually
from pseudo_terminal import PREAMBLE, SPINNER, WAITING, Launch, SlowIndex, stopped_by_ctrl_c

pytestmark = pytest.mark.usefixtures("one_cpu")


def test_ctrl_c_stops_the_trial_waits_for_it_and_prints_a_notice(
    project: Project, launch: Launch
) -> None:
    project.write("train.py", WAITING)
    terminal = launch("train.py")
    pid = terminal.wait_for_number("pid")
    trial = stopped_by_ctrl_c(terminal)
    assert not psutil.pid_exists(pid)
    with pytest.raises(wl.TrialStopped):
        trial.result()


def test_a_second_ctrl_c_exits_at_once_and_prints_the_next_command(
    project: Project, launch: Launch
) -> None:
    project.write(
        "train.py",
        PREAMBLE
        + """
@wl.run
def train():
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    print(f"pid {os.getpid()}.")
    wait_for("never")

train()
""",
    )
    terminal = launch("train.py")
    pid = terminal.wait_for_number("pid")
    terminal.press(b"\x03")
    terminal.wait_for("Stopping trial")
    trial = next(wl.list_trials(sort_by="-id"))
    terminal.press_ctrl_c()
    assert psutil.pid_exists(pid)  # within its grace period of ten seconds
    assert trial.refresh().state == "STOPPING"
    left = f"Left trial {trial.id} while it stops. See: windlass show {trial.id}"
    assert left in "\n".join(terminal.lines)
    trial.stop(grace=0)  # an impatient user may shorten it
    assert trial.wait(PATIENCE).state == "STOPPED"
    assert trial.record.signal == "SIGKILL"
    assert not psutil.pid_exists(pid)


def test_a_submitted_trial_continues_when_ctrl_c_ends_the_program(
    project: Project, launch: Launch, gate: Path
) -> None:
    project.write(
        "train.py",
        PREAMBLE
        + """
@wl.run
def train(gate):
    wait_for(gate)
    return 7

print(f"trial {train.submit(sys.argv[1]).id}.")
wait_for("never")
""",
    )
    terminal = launch("train.py", gate)
    trial = wl.get_trial(terminal.wait_for_number("trial"))
    terminal.press_ctrl_c()
    eventually(lambda: trial.refresh().state == "RUNNING", "it runs")
    gate.touch()
    assert trial.result(timeout=PATIENCE) == 7


def test_ctrl_c_while_packaging_exits_and_creates_no_trial(
    project: Project, launch: Launch, slow_index: SlowIndex
) -> None:
    project.write(
        "train.py",
        f"""
        import windlass as wl

        wl.run(packages=["tinything @ {slow_index.url}"])(lambda: 7)()
        """,
    )
    before = [trial.id for trial in wl.list_trials()]
    terminal = launch("train.py", UV_NO_CACHE="1", NO_PROXY="127.0.0.1")
    terminal.wait_for("packaging")
    terminal.press_ctrl_c()
    assert not SPINNER.search("".join(terminal.lines))
    assert [trial.id for trial in wl.list_trials()] == before


def test_ctrl_c_stops_all_trials_of_a_map(project: Project, launch: Launch) -> None:
    project.write(
        "train.py",
        PREAMBLE
        + """
@wl.run
def train(number):
    print(f"running {number}.")
    wait_for("never")

list(train.map(range(3)))
""",
    )
    terminal = launch("train.py")
    assert terminal.wait_for_number("running") == 0
    terminal.press_ctrl_c()
    trials = list(wl.list_trials(sort_by="-id", limit=3))
    assert [trial.wait(PATIENCE).state for trial in trials] == ["STOPPED"] * 3
    assert [trial.started is None for trial in trials] == [True, True, False]
    assert "watching.py" not in "".join(terminal.lines), "our frames tell users nothing"


@pytest.mark.finding("U5")
def test_the_cleanup_of_a_map_outlives_a_second_ctrl_c(
    project: Project, launch: Launch, gate: Path
) -> None:
    project.write(
        "train.py",
        PREAMBLE
        + """
@wl.run
def train(gate):
    try:
        print("begins", flush=True)
        wait_for("never")
    finally:
        print("cleaning up", flush=True)
        wait_for(gate)
        print("clean")

list(train.map([sys.argv[1]] * 2))
""",
    )
    terminal = launch("train.py", gate)
    terminal.wait_for("begins")
    terminal.press(b"\x03")
    terminal.wait_for("cleaning up")
    terminal.press_ctrl_c()
    assert "Left 2 trials while they stop. See: windlass ls" in "\n".join(terminal.lines)
    gate.touch()
    first = list(wl.list_trials(sort_by="-id", limit=2))[1]
    assert first.wait(PATIENCE).state == "STOPPED"
    assert (first.exit_code, first.record.signal) == (130, "SIGINT")
    assert "clean" in first.logs()


@pytest.mark.finding("U12")
@pytest.mark.parametrize("program", ["function", "command", "map"])
def test_sigterm_to_a_waiting_program_stops_its_trials(
    home: Path, project: Project, program: str
) -> None:
    call = "list(train.map(range(2)))" if program == "map" else "train(0)"
    project.write(
        "train.py",
        PREAMBLE
        + f"""
@wl.run(cpus=0.1)
def train(number):
    print("begins", flush=True)
    wait_for("never")

if __name__ == "__main__":
    {call}
""",
    )
    words = ["train.py"]
    if program == "command":
        words = [BIN / "windlass", "run", "--", "sh", "-c", "echo begins; exec sleep 1000"]
    waiting = project.start(*words)
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == "begins\n"
    waiting.terminate()
    _, errors = waiting.communicate(timeout=PATIENCE)
    assert waiting.returncode == -signal.SIGTERM
    trials = list(wl.list_trials(sort_by="-id", limit=2 if program == "map" else 1))
    assert {trial.wait(PATIENCE).state for trial in trials} == {"STOPPED"}
    first = trials[-1]
    stopping = "2 trials" if program == "map" else f"trial {first.id}"
    assert (
        f"Stopping {stopping} (5s to clean up); a second SIGTERM leaves without waiting." in errors
    )
    assert f"Trial {first.id} ({first.name}) was stopped: SIGTERM." in errors


@pytest.mark.finding("U5")
def test_ctrl_c_is_a_keyboard_interrupt_in_the_function(project: Project, launch: Launch) -> None:
    project.write(
        "train.py",
        PREAMBLE
        + """
import pathlib

@wl.run(cpus=0.1)
def train():
    try:
        print("begins", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        pathlib.Path("weights").mkdir()
        pathlib.Path("weights", "w").write_text("saved")
        wl.save_checkpoint("weights", step=3)
        raise
    finally:
        print("cleaning up")

train()
""",
    )
    terminal = launch("train.py")
    terminal.wait_for("begins")
    terminal.press_ctrl_c()
    trial = next(wl.list_trials(sort_by="-id"))
    assert (trial.state, trial.record.message) == ("STOPPED", "Ctrl-C")
    assert (trial.exit_code, trial.record.signal, trial.record.error) == (130, "SIGINT", None)
    assert [checkpoint.step for checkpoint in trial.list_checkpoints()] == [3]
    screen = "\n".join(terminal.lines)
    assert "cleaning up" in screen
    assert re.search(r"KeyboardInterrupt at train\.py:\d+ in train$", screen, re.MULTILINE)
    assert screen.count("Traceback") == 1, "only that of the program in the terminal"


@pytest.mark.finding("U5")
def test_ctrl_c_interrupts_a_command_its_children_and_all_replicas(
    home: Path, project: Project
) -> None:
    project.write(
        "worker.py",
        """
        import time
        try:
            print("ready", flush=True)
            time.sleep(1000)
        except KeyboardInterrupt:
            print("interrupted")
        """,
    )
    project.write(
        "job.py",
        """
        import windlass as wl
        wl.Job(
            wl.Command(["sh", "-c", "python worker.py; echo never printed"]),
            executor=wl.Local(cpus=0.1),
            replicas=2,
        ).run()
        """,
    )
    waiting = project.start("job.py")
    assert waiting.stdout is not None
    came = 0
    for line in waiting.stdout:
        came += "ready" in line
        if came == 2:
            break
    waiting.send_signal(signal.SIGINT)
    output = waiting.stdout.read()
    waiting.wait(PATIENCE)
    assert output.count("interrupted") == 2
    trial = next(wl.list_trials(sort_by="-id"))
    assert trial.state == "STOPPED"
    assert [attempt.exit_code for attempt in trial.record.attempts] == [130, 130]


@pytest.mark.finding("U5")
def test_stop_sends_sigterm_and_ends_an_interruption(project: Project, launch: Launch) -> None:
    project.write(
        "train.py",
        PREAMBLE
        + """
@wl.run(cpus=0.1)
def train():
    while True:
        try:
            print("waiting", flush=True)
            wait_for("never")
        except KeyboardInterrupt:
            print("ignored", flush=True)

train()
""",
    )
    terminal = launch("train.py")
    terminal.wait_for("waiting")
    terminal.press(b"\x03")
    terminal.wait_for("ignored")
    trial = next(wl.list_trials(sort_by="-id"))
    trial.stop()  # does not wait for half of the grace period of Ctrl-C
    assert terminal.finish() in (-signal.SIGINT, 130)
    assert (trial.refresh().state, trial.record.signal) == ("STOPPED", "SIGTERM")
    assert (trial.ended - trial.started).total_seconds() < 4
