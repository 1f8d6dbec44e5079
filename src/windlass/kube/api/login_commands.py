"""Runs the login programs that `exec` in a kubeconfig file names, with a time limit.

They are others' work, and may wait for a browser, a password or a network that never come. So each
has a limit, and when that is up it goes with all that it started.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence

import psutil

from windlass.kube.explanation import in_a_line
from windlass.model.errors import KubernetesError

LOGIN_SECONDS = 30.0  # that a program has to log in
VARIABLE = "WINDLASS_LOGIN_SECONDS"

_SEE_MORE = "Run it by hand to see the error, or log in again with its tool."
_SEE_WAIT = (
    "Run it by hand to see whether it waits for a browser or a password. It must "
    f"log in without user input. To give it more time, set {VARIABLE} in the server's environment."
)

_lock = threading.Lock()
_running: set[subprocess.Popen[str]] = set()


class LoginFailed(Exception):
    """A login program failed: its behaviour, and a hint for finding the cause."""

    def __init__(self, what: str, hint: str = _SEE_MORE) -> None:
        super().__init__(what)
        self.hint = hint


def login_seconds(environ: Mapping[str, str] = os.environ) -> float:
    """Return the time limit of a login program in seconds.

    >>> login_seconds({}), login_seconds({"WINDLASS_LOGIN_SECONDS": "90"})
    (30.0, 90.0)
    """
    value = environ.get(VARIABLE, "")
    try:
        seconds = float(value or LOGIN_SECONDS)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < threading.TIMEOUT_MAX:
        raise KubernetesError(
            f"{VARIABLE} is {value!r}, which is not a valid number of seconds.",
            hint="Set it to the seconds that a login program may take, such as 90, or unset it.",
        )
    return seconds


def run_login_command(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | None,
    within: float,
    is_interactive: bool = False,
) -> str:
    """Run a login program and return its output; an interactive program gets the terminal.

    >>> run_login_command(["echo", "a token"], env=os.environ, cwd=None, within=30)
    'a token\\n'
    """
    try:
        program = subprocess.Popen(
            argv,
            stdin=None if is_interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if is_interactive else subprocess.PIPE,
            env=env,
            cwd=cwd,
            text=True,
            errors="replace",
            # In its own process group it cannot read from our terminal.
            start_new_session=not is_interactive,
        )
    except (OSError, ValueError) as error:
        raise LoginFailed(f"cannot be run: {error}") from None
    with _lock:
        _running.add(program)
    try:
        out, complaints = program.communicate(timeout=within)
    except subprocess.TimeoutExpired:
        raise LoginFailed(f"did not answer within {within:g} s and was killed", _SEE_WAIT) from None
    finally:
        with _lock:
            _running.discard(program)
        if program.returncode is None:
            _end(program)
    if program.returncode:
        raise LoginFailed(f"exited with {program.returncode}: {in_a_line(complaints or '')}")
    return out


@atexit.register
def end_logins() -> None:
    """End all login programs: no caller waits for them any longer."""
    with _lock:
        running = list(_running)
    for program in running:
        _kill(program)


def _end(program: subprocess.Popen[str]) -> None:
    _kill(program)
    for pipe in (program.stdout, program.stderr):
        if pipe is not None:
            pipe.close()
    program.wait()


def _kill(program: subprocess.Popen[str]) -> None:
    """Kill a program, and whatever it started."""
    if program.returncode is not None:
        return  # its number may be another's
    try:
        started = psutil.Process(program.pid).children(recursive=True)
        is_leader = os.getpgid(program.pid) == program.pid
    except (psutil.Error, ProcessLookupError):
        return
    if is_leader:
        os.killpg(program.pid, signal.SIGKILL)
    program.kill()
    for process in started:
        try:
            process.kill()
        except psutil.Error:
            pass  # it has ended, or is not ours
