"""Runs the login programs that a kubeconfig file names under `exec`, with a time limit.

These programs are not part of Windlass and may wait forever for a browser, a password or a network.
When the time limit is over, a program and all processes that it started are killed.
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

LOGIN_SECONDS = 30.0  # seconds that a login program may take
VARIABLE = "WINDLASS_LOGIN_SECONDS"

_SEE_MORE = "Run it by hand to see the error, or log in again with its tool."
_SEE_WAIT = (
    "Run it by hand to see whether it waits for a browser or a password. It must "
    f"log in without user input. To give it more time, set {VARIABLE} in the server's environment."
)

_lock = threading.Lock()
_running: set[subprocess.Popen[str]] = set()


class LoginFailed(Exception):
    """Raised if a login program failed.

    The message says what the program did, and the hint says how to find out why.
    """

    def __init__(self, what: str, hint: str = _SEE_MORE) -> None:
        super().__init__(what)
        self.hint = hint


def login_seconds(environ: Mapping[str, str] = os.environ) -> float:
    """Return the time limit for login programs in seconds.

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
    """Run a login program and return its output.

    An interactive program can use the terminal.

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
            # In its own session, the program cannot read from our terminal.
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
    """Kill all running login programs, so that no caller waits for them any longer."""
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
    """Kill a program and all processes that it started."""
    if program.returncode is not None:
        return  # another process may have its pid by now
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
            pass  # the process has ended, or belongs to another user
