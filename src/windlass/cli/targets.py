"""What `windlass run` is asked to run: a script of the project, or any command."""

from __future__ import annotations

import difflib
import os
import shutil
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from windlass.authoring.surroundings import look_around
from windlass.cli.arguments import read_params
from windlass.model.errors import InvalidArgument

_PYTHONS = ("python", "python3")
_LONGEST_NAME = 200


class Target(NamedTuple):
    """A command line as the trial will run it, and what it is called."""

    argv: tuple[str, ...]
    name: str
    params: dict[str, Any]
    script: str | None = None  # the file by which the project is found, if it is not a command


def find_target(words: Sequence[str]) -> Target:
    """The script or command that the words name; one that does not exist is refused."""
    for word in words:
        _check_encoding(word)
    first, *arguments = words
    if first.endswith(".py"):
        return _script(first, arguments)
    if os.sep not in first:
        if first in _PYTHONS or _is_on_path(first):
            return _command(words)
        if not os.path.isfile(first):
            raise InvalidArgument(
                f"There is no script and no command {first!r}.", hint=_nearest(first)
            )
    return _program(first, arguments)


def command_name(words: Sequence[str]) -> str:
    """What a command is called: the module or script that Python runs, else the program.

    >>> command_name(["python", "-u", "-m", "pkg.train", "--lr", "1"])
    'pkg.train'
    >>> command_name(["python", "jobs/train.py"]), command_name(["/bin/echo", "hello"])
    ('train', 'echo')
    """
    what = _python_subject(words)
    if what is not None:
        position, is_module = what
        return words[position] if is_module else _stem(words[position])
    return _stem(words[0])


def _script(path: str, arguments: Sequence[str]) -> Target:
    if not os.path.isfile(path):
        what = "is a folder, not a script" if os.path.isdir(path) else "does not exist"
        raise InvalidArgument(f"The script {path!r} {what}.", hint=_nearest(path))
    argv = ("python", _path_in_trial(path), *arguments)
    return Target(argv, _stem(path), read_params(arguments), script=os.path.abspath(path))


def _program(path: str, arguments: Sequence[str]) -> Target:
    """An executable file: one of the project is run from the snapshot, another where it is."""
    if not os.path.isfile(path):
        raise InvalidArgument(f"There is no program {path!r}.", hint=_nearest(path))
    if not os.access(path, os.X_OK):
        raise InvalidArgument(
            f"{path!r} is neither a Python script (.py) nor executable.",
            hint=f"Make it executable: chmod +x {path}\n"
            f"Or name what runs it: windlass run -- bash {path}",
        )
    root = os.path.realpath(look_around().root.path)
    real = os.path.realpath(path)
    is_ours = real.startswith(root.rstrip(os.sep) + os.sep)
    program = os.path.join(".", _path_in_trial(path)) if is_ours else os.path.abspath(path)
    script = os.path.abspath(path) if is_ours else None
    return Target((program, *arguments), _stem(path), read_params(arguments), script)


def _command(words: Sequence[str]) -> Target:
    what = _python_subject(words)
    arguments = words[what[0] + 1 :] if what is not None else words[1:]
    return Target(tuple(words), command_name(words)[:_LONGEST_NAME], read_params(arguments))


def _python_subject(words: Sequence[str]) -> tuple[int, bool] | None:
    """Where in a call of Python its module or script stands, and whether it is a module."""
    if not os.path.basename(words[0]).startswith("python"):
        return None
    position = 1
    while position < len(words):
        word = words[position]
        if word == "-m" and position + 1 < len(words):
            return position + 1, True
        if word == "-c" or word == "-":
            return None
        if not word.startswith("-"):
            return position, False
        position += 2 if word in ("-W", "-X", "--check-hash-based-pycs") else 1
    return None


def _path_in_trial(path: str) -> str:
    """A file of the project, as seen from where the trial will run."""
    place = look_around(script=path)
    start = os.path.join(os.path.realpath(place.root.path), place.workdir)
    return os.path.relpath(os.path.realpath(path), start)


def _stem(path: str) -> str:
    name = os.path.splitext(os.path.basename(path))[0]
    shown = "".join(c if c.isprintable() else "?" for c in name).strip()
    return shown[:_LONGEST_NAME] or "run"


def _is_on_path(name: str) -> bool:
    """Whether the trial will find the program: where its interpreter is, then on the PATH."""
    if os.environ.get("WINDLASS_SERVER"):
        return True  # what another machine has is not known here
    folders = [os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)]
    return shutil.which(name, path=os.pathsep.join(folders)) is not None


def _nearest(path: str) -> str:
    folder, name = os.path.split(path)
    try:
        there = [entry.name for entry in os.scandir(folder or ".") if entry.is_file()]
    except OSError:
        return f"There is no folder {folder!r} either."
    near = difflib.get_close_matches(name, there, n=1, cutoff=0.7)  # .py is alike in all
    if not near and not name.endswith(".py") and f"{name}.py" in there:
        near = [f"{name}.py"]
    if near:
        return f"Did you mean {os.path.join(folder, near[0])!r}?"
    return "Give the path of a script, or a command after --: windlass run -- python -m pkg.train"


def _check_encoding(word: str) -> None:
    try:
        word.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"The argument {word!r} is no UTF-8 text.") from None
