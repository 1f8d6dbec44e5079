"""Admission: capacity is counted, queued trials show the reason, and none is starved."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from harness import PATIENCE, Project, eventually, stop_trials
from windlass.client.terminal.view import View
from windlass.client.terminal.wait_notice import WaitNotice
from windlass.worker.common.atomic_files import is_locked

PROGRAM = """
import os, sys, time
import windlass as wl

@wl.run
def work(name, folder):
    note(folder, "begin", name)
    while not os.path.exists(f"{folder}/{name}") and not os.path.exists(f"{folder}/all"):
        time.sleep(0.01)
    note(folder, "end", name)
    return os.environ.get("CUDA_VISIBLE_DEVICES")

def note(folder, what, name):
    notes = os.open(f"{folder}/notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(notes, f"{what} {name}\\n".encode())
    os.close(notes)

folder = sys.argv[1]
def submit(name, **options):
    return work.options(name=name, **options).submit(name, folder)

"""


class Machine:
    """A machine with two CPUs, 4 GB and two GPUs, and its trials."""

    def __init__(self, home: Path, project: Project, folder: Path) -> None:
        self.home = home
        self.folder = folder
        self._project = project

    def submit(self, text: str) -> dict[str, wl.Trial[Any]]:
        """Run a program that submits trials, and return these by name."""
        before = {trial.id for trial in wl.list_trials()}
        self._project.write("program.py", PROGRAM + text)
        done = self._project.python("program.py", self.folder)
        assert done.returncode == 0, done.stderr
        return {trial.name: trial for trial in wl.list_trials() if trial.id not in before}

    def release(self, *names: str) -> None:
        """Release trials, so that they end."""
        for name in names:
            (self.folder / name).touch()

    def notes(self) -> list[tuple[str, str]]:
        """Return the starts and ends in order."""
        path = self.folder / "notes"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(what, name) for what, _, name in (line.partition(" ") for line in lines)]

    def begun(self) -> list[str]:
        return [name for what, name in self.notes() if what == "begin"]

    def supervisors(self) -> int:
        """Count the processes that hold the lock of an attempt of this home, as supervisors do."""
        locks = (str(path) for path in Path(self.home).glob("trials/*/*/*/lock"))
        return sum(is_locked(lock) for lock in locks)


@pytest.fixture
def machine(
    home: Path, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machine]:
    monkeypatch.setenv("WINDLASS_CPUS", "2")
    monkeypatch.setenv("WINDLASS_MEMORY", "4GB")
    monkeypatch.setenv("WINDLASS_DEVICES", "a100,a100")
    folder = tmp_path / "gates"
    folder.mkdir()
    yield Machine(home, project, folder)
    stop_trials(home)


def states(trials: dict[str, wl.Trial[Any]]) -> list[str]:
    return [trial.refresh().state for trial in trials.values()]


def test_trials_run_up_to_the_number_of_cpus_and_queued_trials_show_their_position(
    machine: Machine,
) -> None:
    trials = machine.submit("for name in 'abcdef': submit(name)\n")
    eventually(lambda: sorted(machine.begun()) == ["a", "b"], "the first two run")
    messages = [trials[name].refresh().message for name in "cdef"]
    assert messages == [
        f"needs 1 CPU, 0 free; {place} in queue" for place in ("1st", "2nd", "3rd", "4th")
    ]
    machine.release("a")  # the others move up
    eventually(lambda: "c" in machine.begun(), "the next one runs")
    assert trials["d"].refresh().message == "needs 1 CPU, 0 free; 1st in queue"
    machine.release("all")
    for trial in trials.values():
        trial.result(timeout=PATIENCE)
    running = highest = 0
    for what, _ in machine.notes():
        running += 1 if what == "begin" else -1
        highest = max(highest, running)
    assert (highest, len(machine.begun())) == (2, 6)


def test_a_client_without_a_status_line_prints_the_reason_for_a_wait_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_REPORT_WAITS", "1")
    trials = machine.submit("for name in 'abcd': submit(name)\n")
    eventually(lambda: sorted(machine.begun()) == ["a", "b"], "the first two run")
    stream = io.StringIO()
    with View(err=stream) as view, WaitNotice(view) as standstill:
        line = "(c) queued: needs 1 CPU, 0 free;"
        for _ in range(2):
            standstill.update(trials["c"].refresh().record)
            eventually(lambda: line in stream.getvalue(), "it says so")
        standstill.update(trials["a"].refresh().record)
    with View(err=stream) as view, WaitNotice(view) as standstill:
        standstill.update(trials["d"].record)
    assert stream.getvalue().count("\n") == 1, "it began, or nobody waits any more, before long"
    machine.release("all")


WAITS_FOR_ITSELF = """
@wl.run(name="outer")
def outer():
    wl.Job(wl.Command(["true"]), name="inner", executor=wl.Local(cpus=2)).run()

outer.submit()
"""


@pytest.mark.finding("U27")
def test_a_trial_that_waits_for_its_own_capacity_fails_and_explains_why(machine: Machine) -> None:
    outer = machine.submit(WAITS_FOR_ITSELF)["outer"]
    eventually(lambda: any(outer.logs()), "it says what it waits for")
    inner = next(trial for trial in wl.list_trials() if trial.name == "inner")
    why = (
        f"needs 2 CPUs, 1 free; 1st in queue; cannot start: trial {outer.id} waits for it and "
        "keeps its CPUs"
    )
    assert inner.refresh().message == why
    assert str(next(iter(outer.logs()))) == (
        f"Trial {inner.id} (inner) queued: {why}. "
        f"Trial {outer.id}, which waits for it, keeps its own resources meanwhile."
    )
    with pytest.raises(wl.Deadlock, match="can never start") as caught:
        outer.result(timeout=PATIENCE)
    assert f"This is trial {outer.id}, so its wait would never end." in str(caught.value)
    assert "Call the function directly" in str(caught.value)
    assert inner.wait(timeout=PATIENCE).state == "SUCCEEDED"


WAIT_FOR_CAPACITY = """
@wl.run
def inner(number):
    return number

@wl.run
def outer(number, folder):
    note(folder, "begin", f"outer{number}")
    while not os.path.exists(f"{folder}/all"):
        time.sleep(0.01)
    return inner.submit(number).result()

for number in (1, 2):
    outer.options(name=f"outer{number}").submit(number, folder)
"""


@pytest.mark.finding("U27")
def test_of_trials_that_keep_each_other_from_continuing_the_newest_fails(machine: Machine) -> None:
    outer = machine.submit(WAIT_FOR_CAPACITY)
    eventually(lambda: len(machine.begun()) == 2, "both run")
    machine.release("all")
    with pytest.raises(wl.Deadlock) as caught:
        outer["outer2"].result(timeout=PATIENCE)
    first, second = (outer[name].id for name in ("outer1", "outer2"))
    assert f"trials {first} and {second} wait and keep their CPUs" in str(caught.value)
    assert outer["outer1"].result(timeout=PATIENCE) == 1


def test_a_larger_trial_is_not_starved_by_smaller_ones(machine: Machine) -> None:
    trials = machine.submit(
        "for name in 'ab': submit(name)\nsubmit('large', cpus=2)\nfor name in 'cd': submit(name)\n"
    )
    eventually(lambda: sorted(machine.begun()) == ["a", "b"], "the first two run")
    machine.release("a")
    eventually(
        lambda: "1 free" in trials["large"].refresh().message, "the large one has half its room"
    )
    assert trials["large"].message == "needs 2 CPUs, 1 free; 1st in queue"
    assert trials["c"].refresh().state == "QUEUED"
    assert "must not delay the one ahead; 2nd in queue" in trials["c"].message
    machine.release("b", "large")
    large = trials["large"].wait(PATIENCE)
    machine.release("all")
    for name in "cd":
        assert trials[name].wait(PATIENCE).started >= large.ended


def test_queued_trials_have_no_process_and_stop_without_a_run(
    machine: Machine,
) -> None:
    trials = machine.submit("for n in range(60): submit(f't{n}')\n")
    eventually(lambda: len(machine.begun()) == 2, "two run")
    assert machine.supervisors() == 2
    waiting = list(wl.list_trials(state="QUEUED"))
    assert len(waiting) == 58
    assert waiting[-1].message == "needs 1 CPU, 0 free; 58th in queue"
    for trial in waiting:
        assert trial.stop(reason="not needed").state in ("STOPPING", "STOPPED")
    for trial in waiting:
        trial.wait(PATIENCE)
        assert (trial.state, trial.started, trial.attempts) == ("STOPPED", None, ())
    machine.release("all")
    for name in machine.begun():
        assert trials[name].wait(PATIENCE).state == "SUCCEEDED"
    assert len(machine.begun()) == 2
    assert machine.supervisors() <= 2


def test_memory_counts(machine: Machine) -> None:
    trials = machine.submit(
        "submit('a', memory='3GB', cpus=0.1)\n"
        "submit('b', memory='3GB', cpus=0.1)\n"
        "submit('c', memory='1GB', cpus=0.1)\n"  # fits beside both of them
        "submit('d', cpus=0.1)\n"
    )
    eventually(lambda: sorted(machine.begun()) == ["a", "c", "d"], "what fits runs")
    assert trials["b"].refresh().message == "needs 3.0 GB of memory, 0 B free; 1st in queue"
    machine.release("all")
    for trial in trials.values():
        assert trial.wait(PATIENCE).state == "SUCCEEDED"


def test_each_trial_has_its_own_accelerators_also_after_a_kill_of_the_server(
    machine: Machine,
) -> None:
    trials = machine.submit(
        "for name in 'ab': submit(name, accelerator='a100', cpus=0.1)\n"
        "for name in 'cd': submit(name, accelerator='gpu', cpus=0.1)\n"
        "submit('none', cpus=0.1)\n"
    )
    eventually(lambda: sorted(machine.begun()) == ["a", "b", "none"], "what fits runs")
    assert trials["c"].refresh().message == "needs 1 GPU, 0 free; 1st in queue"
    os.kill(wl.Client().server_info().pid, signal.SIGKILL)
    assert trials["d"].refresh().message == "needs 1 GPU, 0 free; 2nd in queue"
    expected = ["RUNNING", "RUNNING", "QUEUED", "QUEUED"]
    eventually(lambda: states(trials)[:4] == expected, f"they are {expected}")
    machine.release("a", "none")
    freed = trials["a"].result(timeout=PATIENCE)
    eventually(lambda: "c" in machine.begun(), "the next one runs")
    machine.release("all")
    seen = {name: trial.result(timeout=PATIENCE) for name, trial in trials.items()}
    assert {seen["a"], seen["b"]} == {"0", "1"}
    assert seen["c"] == freed
    assert seen["d"] in ("0", "1")
    assert seen["none"] == ""


def test_an_oversized_trial_is_refused_at_once_with_the_available_capacity(
    machine: Machine, project: Project
) -> None:
    look = "see: windlass accelerators"
    refused = {
        "cpus=3": ("needs 3 CPUs on one machine; there are 2", "Request less: cpus=2 ("),
        "memory='5GB'": (
            "needs 5.0 GB of memory on one machine; there is 4.0 GB",
            "Request less memory.",
        ),
        "accelerator='a100x3'": ("needs 3 GPUs (a100) on one machine; there are 2", look),
        "accelerator='h100'": ("needs 1 GPU (h100) on one machine; there are 0", look),
        "cpus=1, replicas=4": (
            "needs 4 CPUs for its 4 replicas; there are 2",
            "Request less: cpus=0.5 (fractions are allowed: CPUs are reserved, not enforced), "
            "or fewer replicas.",
        ),
    }
    for options in refused:
        attempt = f"try: submit('x', {options})\nexcept wl.ResourceError as error: print(error)\n"
        with (project.path / "program.py").open("a") as program:
            program.write(attempt if program.tell() else PROGRAM + attempt)
    before = [trial.id for trial in wl.list_trials(sort_by="-id", limit=1)]
    done = project.python("program.py", machine.folder)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    for (why, way_out), message, hint in zip(
        refused.values(), lines[::2], lines[1::2], strict=True
    ):
        assert why in message
        assert way_out in hint
    assert [trial.id for trial in wl.list_trials(sort_by="-id", limit=1)] == before
