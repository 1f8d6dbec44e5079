"""Finds the script or command for `windlass run`."""

from __future__ import annotations

import os
from collections.abc import Sequence

from windlass.authoring.prepare.programs import (
    arguments_among,
    is_command,
    nearest_file,
    script_flaw,
)
from windlass.authoring.public.executables import Command, PythonScript
from windlass.model.errors import InvalidArgument

_WAYS = "Name a script, or write a command after --: windlass run -- python -m pkg.train"


def find_executable(
    words: Sequence[str], *, is_elsewhere: bool = False
) -> tuple[PythonScript | Command, Sequence[str]]:
    """Find the script or command named by the words, and its arguments.

    With `is_elsewhere`, the job runs in a container image, so commands need not exist here and are
    not checked.
    """
    for word in words:
        _check_encoding(word)
    first, *arguments = words
    if first.endswith(".py"):
        flaw = script_flaw(first)
        if flaw:
            raise _refusal(flaw)
        return PythonScript(first), arguments
    if is_command(first, is_elsewhere=is_elsewhere):
        flags = arguments_among(words)  # a rerun can change these
        return Command(words[: len(words) - len(flags)]), flags
    if not os.path.isfile(first):
        what = "program" if os.sep in first else "script and no command"
        raise _refusal(f"there is no {what} {first!r}\n{nearest_file(first)}")
    if not os.access(first, os.X_OK):
        raise InvalidArgument(
            f"{first!r} is neither a Python script (.py) nor executable.",
            hint=f"Make it executable: chmod +x {first}\n"
            f"Or run it with a program: windlass run -- bash {first}",
        )
    return Command(words), ()


def _refusal(flaw: str) -> InvalidArgument:
    """Build the error for an invalid script or command, with a hint."""
    what, _, hint = flaw.partition("\n")
    return InvalidArgument(f"{what[0].upper()}{what[1:]}.", hint=hint or _WAYS)


def _check_encoding(word: str) -> None:
    try:
        word.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"The argument {word!r} is not UTF-8 text.") from None
