"""A long wait says what it waits for, in a terminal and in a pipe."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import Project
from pseudo_terminal import PREAMBLE, Terminal

SWEEP = (
    PREAMBLE
    + """
@wl.run(cpus=0.1)
def train(number, gate):
    if number == 2:
        raise ValueError(number)
    if number > 2:
        wait_for(gate)
    return number

if __name__ == "__main__":
    items = [(number, sys.argv[1]) for number in range(5)]
    print(len(list(train.starmap(items, return_exceptions=True))))
"""
)

CLEANUP = (
    PREAMBLE
    + """
@wl.run(cpus=0.1)
def train(number, gate):
    try:
        wait_for(gate)
    finally:
        if number == 0:
            wait_for(gate)

if __name__ == "__main__":
    list(train.starmap([(number, sys.argv[1]) for number in range(3)]))
"""
)

WAITS = (
    PREAMBLE
    + """
@wl.run(cpus=0.1)
def train(gate):
    wait_for(gate)

if __name__ == "__main__":
    trial = train.submit(sys.argv[1])
    trial.suspend()
    trial.wait()
"""
)


@pytest.fixture(autouse=True)
def reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_REPORT_WAITS", "1")


PROGRESS = "train: 2 of 5 done, 2 running, 1 failed"


@pytest.mark.finding("U23")
def test_a_terminal_shows_the_progress_of_a_map(home: Path, project: Project) -> None:
    project.write("sweep.py", SWEEP)
    terminal = Terminal(project, "sweep.py", project.path / "go")
    line = terminal.wait_for(PROGRESS)
    assert re.search(rf"{PROGRESS}; trial \d+ \(train\) running", line)
    (project.path / "go").touch()
    assert terminal.finish() == 0
    assert "of 5 done" not in "\n".join(terminal.lines), "the status line is gone at the end"


@pytest.mark.finding("U23")
def test_a_pipe_gets_a_line_about_a_map_now_and_then(home: Path, project: Project) -> None:
    project.write("sweep.py", SWEEP)
    program = project.start("sweep.py", project.path / "go")
    assert program.stderr is not None
    while (line := program.stderr.readline().rstrip()) != PROGRESS:
        assert line, "it has ended"
    (project.path / "go").touch()
    out, err = program.communicate()
    assert (out, program.returncode) == ("5\n", 0)
    assert err.count("of 5 done") <= 1


@pytest.mark.finding("U23")
def test_after_ctrl_c_the_progress_of_a_map_counts_stopped_trials(
    home: Path, project: Project
) -> None:
    project.write("cleanup.py", CLEANUP)
    terminal = Terminal(project, "cleanup.py", project.path / "go")
    terminal.wait_for("train: 0 of 3 done, 3 running")
    terminal.press(b"\x03")
    terminal.wait_for("train: 0 of 3 done, 1 stopping, 2 stopped")
    (project.path / "go").touch()
    terminal.finish()
    assert (
        "Stopping 3 trials (5s to clean up); Ctrl-C again leaves without waiting." in terminal.lines
    )


def test_a_wait_for_a_trial_names_its_state(home: Path, project: Project) -> None:
    project.write("waits.py", WAITS)
    program = project.start("waits.py", project.path / "go")
    terminal = Terminal(project, "waits.py", project.path / "go")
    assert program.stderr is not None
    assert re.match(r"Trial \d+ \(train\) suspended", program.stderr.readline())
    assert terminal.wait_for("(train) suspended")
    for process in (program, terminal.process):
        process.kill()
    terminal.finish()
    program.communicate()
