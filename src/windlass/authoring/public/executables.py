"""The kinds of programs that a job can run.

These classes import almost nothing, so that trials that import them start fast.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, repr=False)
class PythonScript:
    """A Python script in the project, run as `python train.py` with this interpreter.

    The path is relative to the working directory, or to the job file that contains it. `root` is
    the project folder. By default, it is the nearest parent folder with `.git`, or else with
    `pyproject.toml`, or else the script's folder.

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
    """A module in the project or an installed package, run as `python -m pkg.train`.

    ```python
    wl.PythonModule("pkg.train")
    ```
    """

    name: str


@dataclass(frozen=True)
class PythonFunction:
    """A function that every replica calls. The value from rank 0 becomes the trial's value.

    If the function is decorated with `wl.run`, the job's options apply instead of the decorator's.

    ```python
    def train(lr):
        return 1 - lr


    wl.PythonFunction(train)
    ```
    """

    function: Callable[..., Any]


@dataclass(frozen=True)
class Command:
    """A command line whose program is on the `PATH` or is an executable file in the project.

    The word `python` stands for this process's interpreter.

    ```python
    wl.Command(["torchrun", "train.py"])
    ```
    """

    words: Sequence[str]


@dataclass(frozen=True)
class Container:
    """A container image, with an optional command that replaces the image's default.

    No executor supports `wl.Container` yet, so jobs with it are refused. To run code in an image,
    use any other executable with `wl.Kubernetes(container_image=...)`.

    ```python
    wl.Container("python:3.11", command=["python", "-m", "json.tool", "--help"])
    ```
    """

    image: str
    command: Sequence[str] | None = None


@dataclass(frozen=True)
class Raw:
    """Text that is split into words like a shell command, but without expanding variables.

    Among a job's arguments, the words keep their position. The entry's name is dropped.

    ```python
    echo = wl.Command(["echo"])
    wl.Job(echo, args={"lr": 0.1, "more": wl.Raw("-v 'two words'")}).run()
    # echo --lr=0.1 -v 'two words'
    ```
    """

    text: str


Executable = PythonScript | PythonModule | PythonFunction | Command | Container
Arguments = Mapping[str, Any] | Sequence[Any]
