"""The output of a blocking call in a terminal, and its shorter form elsewhere."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import windlass as wl
from harness import PATIENCE, Project, eventually
from pseudo_terminal import PREAMBLE, SPINNER, Launch, SlowIndex

pytestmark = pytest.mark.usefixtures("one_cpu")


def test_output_is_shown_as_it_is_written_and_the_status_line_leaves_no_trace(
    project: Project, launch: Launch, gate: Path
) -> None:
    project.write("train.py", PREAMBLE + STEPS)
    terminal = launch("train.py", gate)
    for number, shown in enumerate(["first line", "careful", "10%", "20%", "done"]):
        assert terminal.wait_for(shown) == shown
        if shown == "careful":
            status = terminal.wait_for("running")
            assert SPINNER.match(status)
            assert re.search(r"trial \d+ \(train\) running", status)
        Path(f"{gate}{number}").touch()
    assert terminal.finish() == 0
    *written, note, value = terminal.lines
    assert written == ["first line", "careful", "done", "unended"]  # a \r bar is overwritten
    assert re.fullmatch(r"trial \d+ \(train\) succeeded in [\d.]+m?s", note)
    assert value == "value 7"


STEPS = """
@wl.run
def train(gate):
    print("first line")
    wait_for(gate + "0")
    print("careful", file=sys.stderr)
    wait_for(gate + "1")
    print("10%", end="\\r")
    wait_for(gate + "2")
    print("20%", end="\\r")
    wait_for(gate + "3")
    print("done")
    wait_for(gate + "4")
    print("unended", end="")
    return 7

print("value", train(sys.argv[1]))
"""


@pytest.mark.finding("U23")
def test_a_function_that_exits_with_code_0_is_not_reported_as_a_success(
    project: Project, launch: Launch
) -> None:
    project.write("train.py", PREAMBLE + "wl.run(sys.exit, name='train')(0)\n")
    terminal = launch("train.py")
    assert terminal.finish() == 1
    screen = "\n".join(terminal.lines)
    assert re.search(r"trial \d+ \(train\) ended after [\d.]+m?s without returning\n", screen)
    assert re.search(r"Trial \d+ \(train\) ended without returning: it called sys.exit", screen)
    assert "succeeded" not in screen


def test_a_map_that_returns_exceptions_names_the_failed_trial(
    project: Project, launch: Launch
) -> None:
    project.write("rates.py", PREAMBLE + RATES)
    terminal = launch("rates.py")
    assert terminal.finish() == 0
    notes = [line for line in terminal.lines if line.startswith("trial ")]
    assert [re.sub(r"\d\S*", "N", note) for note in notes] == [
        "trial N (train) succeeded in N",
        "trial N (train) failed: exit code N",
        "trial N (train) succeeded in N",
    ]


RATES = """
@wl.run
def train(rate):
    if rate == 2:
        raise ValueError("too large")

list(train.map([1, 2, 3], return_exceptions=True))
"""


def test_the_status_line_shows_the_progress_of_the_program(
    project: Project, launch: Launch, gate: Path
) -> None:
    program = """
@wl.run
def train(gate):
    wl.report_progress(0.25)
    wait_for(gate + "0")
    wl.report_progress(0.755)
    wait_for(gate + "1")

train(sys.argv[1])
"""
    project.write("train.py", PREAMBLE + program)
    terminal = launch("train.py", gate)
    assert re.search(r"trial \d+ \(train\) running 25%", terminal.wait_for("25%"))
    Path(f"{gate}0").touch()
    assert re.search(r"trial \d+ \(train\) running 76%", terminal.wait_for("76%"))
    Path(f"{gate}1").touch()
    assert terminal.finish() == 0


def test_piped_output_is_plain_and_streams(project: Project, gate: Path, tmp_path: Path) -> None:
    project.write("train.py", PREAMBLE + STEPS)
    out, err = tmp_path / "out", tmp_path / "err"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "train.py", gate], cwd=project.path, stdout=stdout, stderr=stderr
        )
    for number, shown in enumerate([b"first line\n", b"careful\n", b"10%\r", b"20%\r", b"done\n"]):
        path = err if shown == b"careful\n" else out
        eventually(lambda p=path, s=shown: p.read_bytes().endswith(s), f"{shown!r} is there")
        Path(f"{gate}{number}").touch()
    assert process.wait(PATIENCE) == 0
    assert out.read_bytes() == b"first line\n10%\r20%\rdone\nunendedvalue 7\n"
    assert err.read_bytes() == b"careful\n"


def test_with_stdout_in_a_file_the_status_is_still_on_the_terminal(
    project: Project, launch: Launch, gate: Path, tmp_path: Path
) -> None:
    project.write("train.py", PREAMBLE + STEPS)
    with (tmp_path / "out").open("wb") as out:
        terminal = launch("train.py", gate, stdout=out)
    terminal.wait_for("running")
    for number in range(5):
        Path(f"{gate}{number}").touch()
    assert terminal.finish() == 0
    assert (tmp_path / "out").read_bytes() == b"first line\n10%\r20%\rdone\nunendedvalue 7\n"
    assert terminal.lines[0] == "careful"
    assert "succeeded" in terminal.lines[1]
    assert len(terminal.lines) == 2


def test_a_dumb_terminal_gets_no_escape_codes_and_no_status(
    project: Project, launch: Launch, gate: Path
) -> None:
    project.write("train.py", PREAMBLE + STEPS)
    terminal = launch("train.py", gate, TERM="dumb")
    for number, shown in enumerate(["first line", "careful", "10%", "20%", "done"]):
        terminal.wait_for(shown)
        Path(f"{gate}{number}").touch()
    assert terminal.finish() == 0
    written = b"first line\r\ncareful\r\n10%\r20%\rdone\r\nunendedvalue 7\r\n"
    assert terminal.raw == written  # the exact bytes of a local call


@pytest.mark.parametrize("columns", [100, 50])
def test_the_status_line_shows_packaging_then_starting_then_running(
    project: Project, launch: Launch, gate: Path, slow_index: SlowIndex, columns: int
) -> None:
    """If the status line is cut, the full reason for the wait appears once in a line above it."""
    project.write(
        "train.py",
        PREAMBLE
        + f"""
@wl.run(packages=["tinything @ {slow_index.url}"])
def train(gate):
    wait_for(gate)
    import tinything
    return tinything.VALUE

print("value", train(sys.argv[1]))
""",
    )
    # Without a cache the package is downloaded twice: to resolve it, and to install it.
    terminal = launch("train.py", gate, UV_NO_CACHE="1", NO_PROXY="127.0.0.1", columns=columns)
    terminal.wait_for("train: packaging")
    slow_index.opened["resolve"].set()
    if columns == 100:
        terminal.wait_for("(train) starting: installing 1 package")
    else:
        assert terminal.wait_for("installing 1 package").startswith("Trial ")
        terminal.wait_for_redraws(20)
        assert "starting: installing" in terminal.wait_for("…")
    slow_index.opened["install"].set()
    terminal.wait_for("(train) running")
    gate.touch()
    assert terminal.finish() == 0
    assert terminal.lines[-1] == "value 7"
    assert not SPINNER.search("".join(terminal.lines))
    assert "\n".join(terminal.lines).count("installing") == int(columns == 50)


QUEUED = """
@wl.run
def train():
    return 7

@wl.run
def 长长的名字的训练():
    return 7

{}()
"""


def test_a_queued_call_shows_its_reason_in_one_line_and_ctrl_c_cancels_it(
    project: Project, launch: Launch, gate: Path
) -> None:
    project.write("hog.py", PREAMBLE + "wl.run(wait_for).submit(sys.argv[1])\n")
    project.write("train.py", PREAMBLE + QUEUED.format("train"))
    project.write("wide.py", PREAMBLE + QUEUED.format("长长的名字的训练"))
    assert project.python("hog.py", gate).returncode == 0
    hog = next(wl.list_trials(sort_by="-id"))
    eventually(lambda: hog.refresh().state == "RUNNING", "the machine is taken")

    terminal = launch("train.py")
    status = terminal.wait_for("queued: needs 1 CPU, 0 free; 1st in queue")
    assert len(terminal.lines) == 1, status
    narrow = [
        launch("train.py", columns=0),  # an unknown width
        launch("train.py", columns=30),
        launch("train.py", columns=30, PYTHONIOENCODING="ascii"),
        launch("wide.py", columns=30),
        launch("train.py", columns=4),
    ]
    assert re.search(r"needs 1 CPU, 0 free; .{3} in queue", narrow[0].wait_for("queued"))
    for screen in narrow:
        screen.wait_for_redraws(6)
        assert len(screen.lines) <= 1, screen.lines
    for screen in [terminal, *narrow]:
        screen.press(b"\x03")
    for screen in [terminal, *narrow]:
        assert screen.finish() in (-signal.SIGINT, 130)
    assert "was stopped" in "\n".join(terminal.lines)
    taken_back = list(wl.list_trials(sort_by="-id", limit=6))
    assert {(trial.state, trial.started) for trial in taken_back} == {("STOPPED", None)}
    gate.touch()
    assert hog.wait(PATIENCE).state == "SUCCEEDED"


def test_an_error_appears_below_the_output_without_the_status_line(
    project: Project,
    launch: Launch,
) -> None:
    project.write(
        "train.py",
        PREAMBLE
        + """
@wl.run
def train():
    print("so far")
    raise ValueError("bad luck")

train()
""",
    )
    terminal = launch("train.py")
    assert terminal.finish() == 1
    assert terminal.lines[0] == "so far"
    assert "ValueError: bad luck" in terminal.lines
    assert not SPINNER.search("".join(terminal.lines))
