"""Executables: what a role runs. Values alone: a trial that imports them loads nothing more."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PythonScript:
    """A Python script of the project: `python train.py`, with this interpreter.

    The path is relative to the working directory, to where you stand; in a job file, to the file.

    ```python
    wl.PythonScript("train.py")
    ```
    """

    path: str | os.PathLike[str]


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

    It may be a plain one or one decorated with `wl.run`; how it runs is said by the job, not by
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
    """Any command line: a program on the `PATH`, or a file of the project that is executable.

    A first word of `python` is this interpreter.

    ```python
    wl.Command(["torchrun", "train.py"])
    ```
    """

    words: Sequence[str]


Executable = PythonScript | PythonModule | PythonFunction | Command
Arguments = Mapping[str, Any] | Sequence[Any]
