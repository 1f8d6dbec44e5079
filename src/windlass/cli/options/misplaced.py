"""Detects Windlass options that follow a script's name, and are therefore passed to the script."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import click


def note_misplaced(command: click.Command, words: Sequence[str]) -> str:
    """Return a note about Windlass options that follow a script's name.

    The note is empty if there are none, or if the script's source mentions them.

    Short options are not checked, because many scripts define options such as -f.
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
    misplaced = list(_find(words[1:], takes_value))
    if not misplaced:
        return ""
    text = Path(script).read_text(errors="replace")
    meant = [
        shlex.join(option_words)
        for option_words in misplaced
        if not _is_command_word(text, option_words[0])
    ]
    if not meant:
        return ""
    go, them = ("goes", "it") if len(meant) == 1 else ("go", "them")
    return f"{' '.join(meant)} {go} to {script}; for Windlass, put {them} before the script"


def _find(words: Sequence[str], takes_value: dict[str, bool]) -> Iterator[list[str]]:
    for index, word in enumerate(words):
        if word == "--":
            return
        name, has_value, _ = word.partition("=")
        if name in takes_value:
            value = words[index + 1 : index + 2] if takes_value[name] and not has_value else []
            yield [word, *value]


def _is_command_word(text: str, word: str) -> bool:
    """Return whether a script's source mentions an option."""
    name = word.partition("=")[0].removeprefix("--")
    return f"--{name}" in text or name.replace("-", "_") in text
