"""A parser of `deploy/Dockerfile`, for images that are built without Docker."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PROJECT = Path(__file__).parents[4]
DOCKERFILE = PROJECT / "deploy" / "Dockerfile"

_KNOWN = ("ARG", "FROM", "RUN", "COPY", "USER", "WORKDIR", "ENV", "CMD", "ENTRYPOINT")


@dataclass(frozen=True)
class Stage:
    """One image of a Dockerfile: its base, its steps in order, and its run configuration."""

    name: str
    base: str
    steps: tuple[tuple[str, str], ...]
    """`("COPY", "src /build/src")`, `("RUN", "pip install ...")`."""
    env: dict[str, str] = field(default_factory=dict)
    user: str = ""
    folder: str = ""
    command: tuple[str, ...] = ()
    entry: tuple[str, ...] = ()

    def settings(self, path: str) -> dict[str, object]:
        """The configuration of such an image; `path` is the search path of programs."""
        env = [f"PATH={path}", *(f"{name}={value}" for name, value in self.env.items())]
        settings = {
            "Env": env, "User": self.user, "WorkingDir": self.folder,
            "Cmd": list(self.command), "Entrypoint": list(self.entry),
        }  # fmt: skip
        return {name: value for name, value in settings.items() if value}


def stages(text: str) -> dict[str, Stage]:
    """The stages of a Dockerfile, each with the settings of its base.

    >>> one = "FROM python:3 AS one\\nENV A=1 B=2\\nUSER 7\\n"
    >>> two = stages(f"{one}FROM one AS two\\nUSER 8\\nRUN a \\\\\\n b")["two"]
    >>> two.base, two.user, two.env, two.steps
    ('one', '8', {'A': '1', 'B': '2'}, (('RUN', 'a  b'),))
    """
    stages_by_name: dict[str, Stage] = {}
    name = ""
    for word, rest in _instructions(text):
        if word == "ARG":
            continue
        if word == "FROM":
            base, _, name = (word.strip() for word in re.split(r"(\sAS\s)", rest))
            before = stages_by_name.get(base)
            stages_by_name[name] = (
                Stage(name, base, ())
                if before is None
                else Stage(
                    name, base, (), before.env, before.user, before.folder, before.command,
                    before.entry,
                )
            )  # fmt: skip
            continue
        stages_by_name[name] = _with(stages_by_name[name], word, rest)
    return stages_by_name


def _with(stage: Stage, word: str, rest: str) -> Stage:
    steps, env = stage.steps, stage.env
    user, folder = stage.user, stage.folder
    command, entry = stage.command, stage.entry
    if word in ("RUN", "COPY"):
        steps = (*steps, (word, rest))
    elif word == "ENV":
        pairs = (word.partition("=") for word in shlex.split(rest))
        env = {**env, **{key: value for key, _, value in pairs}}
    elif word == "USER":
        user = rest
    elif word == "WORKDIR":
        folder = rest
    elif word == "CMD":
        command = tuple(json.loads(rest))
    elif word == "ENTRYPOINT":
        entry = tuple(json.loads(rest))
    return Stage(stage.name, stage.base, steps, env, user, folder, command, entry)


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for line in re.sub(r"\\\n", "", "\n".join(lines)).splitlines():
        word, _, rest = line.strip().partition(" ")
        if word:
            if word not in _KNOWN:
                raise ValueError(f"{word} is not known here: {line}")
            yield word, rest.strip()
