"""Options of ours that were typed behind the script, and so go to the script."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import click


def note_misplaced(command: click.Command, words: Sequence[str]) -> str:
    """What to say of them; nothing if there are none, or if the script may have its own.

    Short options are left alone: every second script has a -f.
    """
    script = words[0]
    if not script.endswith(".py"):
        return ""
    takes_value = {
        name: not param.is_flag
        for param in command.params
        if isinstance(param, click.Option)
        for name in param.opts
        if name.startswith("--")
    }
    found = list(_find(words[1:], takes_value))
    if not found:
        return ""
    text = Path(script).read_text(errors="replace")
    meant = [shlex.join(each) for each in found if not _is_known(text, each[0])]
    if not meant:
        return ""
    go, them = ("goes", "it") if len(meant) == 1 else ("go", "them")
    return f"{' '.join(meant)} {go} to {script}; for Windlass, put {them} before the script"


def _find(words: Sequence[str], takes_value: dict[str, bool]) -> Iterator[list[str]]:
    for place, word in enumerate(words):
        if word == "--":
            return
        name, has_value, _ = word.partition("=")
        if name in takes_value:
            value = words[place + 1 : place + 2] if takes_value[name] and not has_value else []
            yield [word, *value]


def _is_known(text: str, word: str) -> bool:
    """Whether a script speaks of an option, as whoever reads its own arguments does."""
    name = word.partition("=")[0].removeprefix("--")
    return f"--{name}" in text or name.replace("-", "_") in text
