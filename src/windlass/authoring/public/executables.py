"""The kinds of programs that a job can run.

These classes import almost nothing, so that a trial that imports them starts fast.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, repr=False)
class PythonScript:
    """A Python script of the project, which runs as `python train.py` with this interpreter.

    The path is relative to the working directory, or to the job file that contains the path. The
    project is the folder `root`. By default, it is the nearest parent folder with `.git`, or else
    with `pyproject.toml`, or else the folder of the script.

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
    """A module of the project or of an installed package, which runs as `python -m pkg.train`.

    ```python
    wl.PythonModule("pkg.train")
    ```
    """

    name: str


@dataclass(frozen=True)
class PythonFunction:
    """A function that every replica calls. The value of rank 0 becomes the value of the trial.

    The function may be decorated with `wl.run`. The options of the job apply, not the options of
    the decorator.

    ```python
    def train(lr):
        return 1 - lr


    wl.PythonFunction(train)
    ```
    """

    function: Callable[..., Any]


@dataclass(frozen=True)
class Command:
    """A command line. Its program is on the `PATH`, or is an executable file of the project.

    The word `python` stands for the interpreter of this process.

    ```python
    wl.Command(["torchrun", "train.py"])
    ```
    """

    words: Sequence[str]


@dataclass(frozen=True)
class Container:
    """A container image, with an optional command that replaces the image's own command.

    No executor supports `wl.Container` yet, so such a job is refused. To run code in an image, use
    any other executable with `wl.Kubernetes(container_image=...)`.

    ```python
    wl.Container("python:3.11", command=["python", "-m", "json.tool", "--help"])
    ```
    """

    image: str
    command: Sequence[str] | None = None


@dataclass(frozen=True)
class Raw:
    """Text that is split into words as a shell would split it, without expanding variables.

    In the arguments of a job, the words stay in their position. The name of the entry is omitted.

    ```python
    echo = wl.Command(["echo"])
    wl.Job(echo, args={"lr": 0.1, "more": wl.Raw("-v 'two words'")}).run()
    # echo --lr=0.1 -v 'two words'
    ```
    """

    text: str


Executable = PythonScript | PythonModule | PythonFunction | Command | Container
Arguments = Mapping[str, Any] | Sequence[Any]
