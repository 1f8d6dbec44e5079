"""Finds the worker's code in this server's installation and an interpreter that can run it.

A virtual environment may be moved or deleted while its server runs. The worker needs only the
standard library, so any interpreter on this machine can run a supervisor.
"""

from __future__ import annotations

import os
import sys

import windlass.worker

SUPERVISOR = os.path.join(os.path.dirname(windlass.worker.__file__), "supervisor.py")


class InstallationGone(FileNotFoundError):
    """Raised if this server's code or interpreter was moved or deleted."""


def has_code() -> bool:
    """Return whether this installation's code is still where it was."""
    return os.path.isfile(SUPERVISOR)


def has_interpreter() -> bool:
    """Return whether this server's interpreter is still where it was."""
    return _is_program(sys.executable)


def supervisor_command(python: str) -> list[str]:
    """Return a command line that runs a supervisor with an existing interpreter.

    The first choice is the server's interpreter, and the second is the interpreter that created the
    server's virtual environment. The last choice is `python`, the attempt's interpreter.
    """
    if not has_code():
        raise InstallationGone(
            f"the server's installation was moved or deleted: {os.path.dirname(SUPERVISOR)} does "
            "not exist. To start a server of this installation: windlass server stop"
        )
    base = getattr(sys, "_base_executable", "")
    for program in (sys.executable, base, python):
        if _is_program(program):
            # With -I, the interpreter ignores PYTHONDONTWRITEBYTECODE.
            compiling = ["-B"] if sys.dont_write_bytecode else []
            return [program, "-I", "-S", *compiling, SUPERVISOR]
    raise InstallationGone(
        f"the server's interpreter was moved or deleted: {sys.executable} does not exist. "
        "To start a server of this installation: windlass server stop"
    )


def describe_installation() -> str:
    """Describe what this installation lacks, or return "" if it is complete.

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
