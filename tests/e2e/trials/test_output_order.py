"""Output of a Python program keeps the order in which the program wrote it, live and in the log."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import windlass as wl
from harness import BIN, Project
from pseudo_terminal import Terminal

pytestmark = pytest.mark.finding("U15")

LINES = 40
EXPECTED = [f"{name} {number}" for number in range(LINES) for name in ("out", "err")]

ALTERNATE = f"""
import sys

def alternate():
    for number in range({LINES}):
        print("out", number)
        print("err", number, file=sys.stderr)
"""

SCRIPT = ALTERNATE + "\nalternate()\n"

FUNCTION = f"""
import os
import windlass as wl
{ALTERNATE}
@wl.run(cpus=0.1, secrets={{"TOKEN": "xyzzy-42"}} if os.environ.get("MASKED") else None)
def train():
    alternate()

train()
"""

BAR = """
import sys, time
from tqdm import tqdm

for number in tqdm(range(50)):
    time.sleep(0.004)
print("after the bar")
for number in tqdm(range(20), bar_format="{n_fmt} steps"):
    time.sleep(0.004)
    if number == 10:
        break
"""


def newest() -> wl.Trial[object]:
    return next(wl.list_trials(sort_by="-id"))


@pytest.mark.parametrize("program", ["script", "function", "masked"])
def test_lines_of_both_streams_keep_their_order(
    home: Path, project: Project, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("script.py", SCRIPT)
    project.write("function.py", FUNCTION)
    command = [sys.executable, "function.py"]
    if program == "script":
        command = [str(BIN / "windlass"), "run", "script.py"]
    if program == "masked":
        monkeypatch.setenv("MASKED", "yes")
    done = subprocess.run(
        command, cwd=project.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.stdout.splitlines() == EXPECTED
    assert [str(line) for line in newest().logs()] == EXPECTED


def test_a_program_may_close_one_stream_and_write_to_the_other(
    home: Path, project: Project
) -> None:
    project.write(
        "script.py",
        """
        import sys

        print("out")
        sys.stdout.close()
        print("err", file=sys.stderr)
        """,
    )
    done = project.run(BIN / "windlass", "run", "script.py")
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n", "err\n")


def test_the_last_state_of_a_progress_bar_stays(home: Path, project: Project) -> None:
    project.write("bar.py", BAR)
    terminal = Terminal(project, BIN / "windlass", "run", "bar.py")
    assert terminal.finish() == 0
    screen = terminal.lines
    [full] = [line for line in screen if line.startswith("100%")]
    assert screen.index("after the bar") > screen.index(full)
    log = [str(line).rpartition("\r")[2] for line in newest().logs()]
    assert log[0].startswith("100%|") and log[1] == "after the bar"
    assert log[2].endswith("steps") and len(log) == 3


def test_a_program_sees_its_own_streams_and_customizations(home: Path, project: Project) -> None:
    project.write("sitecustomize.py", "print('customized')\n")
    project.write(
        "look.py",
        """
        import sys
        assert not any("windlass" in path and "startup" in path for path in sys.path)
        print(sys.stdout.name, sys.stdout.mode, sys.stdout.fileno(), sys.stdout.isatty())
        assert sys.stdout is sys.__stdout__ and sys.stderr is sys.__stderr__
        sys.stdout.buffer.write(b"bytes\\n")
        sys.stderr.write("error\\n")
        """,
    )
    (project.path / "own").mkdir()
    (project.path / "sitecustomize.py").rename(project.path / "own/sitecustomize.py")
    done = project.run(
        BIN / "windlass", "run", "look.py", env={"PYTHONPATH": str(project.path / "own")}
    )
    assert done.stdout.splitlines() == [
        "customized",  # the command itself has this PYTHONPATH, too
        "customized",
        "<stdout> w 1 False",
        "bytes",
    ]
    assert done.stderr == "error\n"
