"""Executables of roles. Plain values: a trial that imports them loads nothing more."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, repr=False)
class PythonScript:
    """A Python script of the project: `python train.py`, with this interpreter.

    The path is relative to the working directory; in a job file, to the file. The project is the
    folder around it with `.git`, else with `pyproject.toml`, else its own folder; or `root`.

    ```python
    wl.PythonScript("train.py")
    wl.PythonScript("agents/learner.py", root="agents")
    ```
    """

    path: str | os.PathLike[str]
    root: str | os.PathLike[str] | None = None

    def __repr__(self) -> str:
        root = "" if self.root is None else f", root={self.root!r}"
        return f"PythonScript(path={self.path!r}{root})"


@dataclass(frozen=True)
class PythonModule:
    """A module of the project or of the environment: `python -m pkg.train`.

    ```python
    wl.PythonModule("pkg.train")
    ```
    """

    name: str


@dataclass(frozen=True)
class PythonFunction:
    """A function: every replica calls it, and the value of rank 0 is the trial's.

    It may be a plain function or one decorated with `wl.run`. The job determines how it runs, not
    the options of the decorator.

    ```python
    def train(lr):
        return 1 - lr


    wl.PythonFunction(train)
    ```
    """

    function: Callable[..., Any]


@dataclass(frozen=True)
class Command:
    """Any command line: a program on the `PATH`, or an executable file of the project.

    If the first word is `python`, this interpreter is used.

    ```python
    wl.Command(["torchrun", "train.py"])
    ```
    """

    words: Sequence[str]


@dataclass(frozen=True)
class Container:
    """A container image, and a command if it is not the image's own.

    No executor supports this yet, and such a job is refused. Every other executable runs in an
    image, with the code, on `wl.Kubernetes(container_image=...)`.

    ```python
    wl.Container("python:3.11", command=["python", "-m", "json.tool", "--help"])
    ```
    """

    image: str
    command: Sequence[str] | None = None


@dataclass(frozen=True)
class Raw:
    """Words of a command line as one would type them in a shell; nothing is expanded.

    In arguments, the words keep their position, without the flag's name.

    ```python
    echo = wl.Command(["echo"])
    wl.Job(echo, args={"lr": 0.1, "more": wl.Raw("-v 'two words'")}).run()
    # echo --lr=0.1 -v 'two words'
    ```
    """

    text: str


Executable = PythonScript | PythonModule | PythonFunction | Command | Container
Arguments = Mapping[str, Any] | Sequence[Any]
