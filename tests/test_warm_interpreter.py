"""A fork of the warm interpreter behaves as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import warm_interpreter
from harness import PATIENCE

SCRIPT = """
import atexit, os, sys, threading, __main__
atexit.register(print, "at exit")
print(sys.argv, sys.path[0], os.getcwd(), os.environ["COLOUR"], __name__, __main__.__file__)
print(len(os.listdir("/proc/self/fd")), sys.stdin.read(), sys.stdout.isatty())
threading.Timer(0.01, print, ["a thread"]).start()
END
"""


@pytest.mark.parametrize(
    "end",
    [
        "",
        "sys.exit(3)",
        "sys.exit('a reason')",
        "raise ValueError('wrong')",
        "sys.stdout.flush(); os.kill(os.getpid(), 9)",
    ],
)
def test_a_script_does_what_it_does_in_a_new_interpreter(tmp_path: Path, end: str) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.replace("END", end))
    command = [sys.executable, "script.py", "--lr", "0.1"]
    env = {**os.environ, "COLOUR": "green"}
    expected = subprocess.run(
        command,
        cwd=tmp_path,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    done = warm_interpreter.run(command, cwd=tmp_path, env=env, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (
        expected.returncode,
        expected.stdout,
        expected.stderr,
    )


def test_a_script_that_hangs_is_killed(tmp_path: Path) -> None:
    (tmp_path / "hangs.py").write_text("import signal; signal.pause()")
    command = [sys.executable, "hangs.py"]
    with pytest.raises(subprocess.TimeoutExpired):
        warm_interpreter.run(command, cwd=tmp_path, env=os.environ, timeout=0.1)


def test_a_started_script_runs_until_it_is_signalled(tmp_path: Path) -> None:
    program = "import os, signal; print(os.environ['PYTHONUNBUFFERED']); signal.pause()"
    (tmp_path / "waits.py").write_text(program)
    reader, writer = os.pipe()
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = warm_interpreter.start(
        [sys.executable, "waits.py"], cwd=tmp_path, env=env, output=writer
    )
    os.close(writer)
    with open(reader) as output:
        assert output.readline() == "1\n", "it is not buffered"
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE) == process.poll() == -signal.SIGTERM
        process.kill()  # it has ended: nothing happens
        assert output.read() == ""
