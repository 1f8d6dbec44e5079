"""Finds the worker's code, and an interpreter that can run it, for this server's installation.

A virtual environment may be moved or deleted while its server runs. The worker needs only the
standard library, so any interpreter of this machine can run a supervisor.
"""

from __future__ import annotations

import os
import sys

import windlass.worker

SUPERVISOR = os.path.join(os.path.dirname(windlass.worker.__file__), "supervisor.py")


class InstallationGone(FileNotFoundError):
    """The code or the interpreter of this server was moved or deleted."""


def has_code() -> bool:
    """Return whether the code of this installation is still where it was."""
    return os.path.isfile(SUPERVISOR)


def has_interpreter() -> bool:
    """Return whether the interpreter of this server is still where it was."""
    return _is_program(sys.executable)


def supervisor_command(python: str) -> list[str]:
    """Return the command line that runs a supervisor, with an interpreter that exists.

    The first choice is the interpreter of the server, and the second the interpreter that created
    the server's virtual environment. `python`, the interpreter of the attempt, is the last choice.
    """
    if not has_code():
        raise InstallationGone(
            f"the server's installation was moved or deleted: {os.path.dirname(SUPERVISOR)} does "
            "not exist. To start a server of this installation: windlass server stop"
        )
    base = getattr(sys, "_base_executable", "")
    for program in (sys.executable, base, python):
        if _is_program(program):
            return [program, "-I", "-S", SUPERVISOR]
    raise InstallationGone(
        f"the server's interpreter was moved or deleted: {sys.executable} does not exist. "
        "To start a server of this installation: windlass server stop"
    )


def describe_installation() -> str:
    """Return a description of the missing parts of this installation, or "" if it is complete.

    >>> describe_installation()
    ''
    """
    if not has_code():
        return f"its installation was moved or deleted: {os.path.dirname(SUPERVISOR)}"
    if not has_interpreter():
        return f"its interpreter was moved or deleted: {sys.executable}"
    return ""


def _is_program(path: str) -> bool:
    return bool(path) and os.access(path, os.X_OK)
