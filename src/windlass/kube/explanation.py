"""What is said of a pod that does not run."""

from __future__ import annotations

import msgspec

from windlass.model.errors import WindlassError

_MOST_LETTERS = 2000  # of what others say


class Explanation(msgspec.Struct, frozen=True):
    """Why a pod is not running."""

    reason: str  # one word for programs: Unschedulable, ImageMissing
    sentence: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{in_a_line(self.sentence)} {self.remedy}".strip()


def told_of_error(error: WindlassError) -> str:
    """What went wrong, and what to do, on one line: as of a pod that does not run.

    >>> told_of_error(WindlassError("The quota has no room", hint="Ask for less."))
    'The quota has no room. Ask for less.'
    >>> told_of_error(WindlassError("its pod is still there"))
    'its pod is still there'
    """
    if not error.hint:
        return error.message
    return str(Explanation(error.code, sentence_of(error.message), _on_one_line(error.hint)))


def _on_one_line(hint: str) -> str:
    """Advice whose commands, one below the other, are done one after the other.

    >>> _on_one_line("Grant it:\\n  kubectl a\\n  kubectl b\\nOr ask for all of it.")
    'Grant it: kubectl a && kubectl b; Or ask for all of it.'
    """
    text, was_command = "", False
    for line in hint.splitlines():
        is_command = line.startswith("  ")
        between = (" && " if is_command else "; ") if was_command else " " if text else ""
        text, was_command = text + between + line.strip(), is_command
    return text


def in_a_line(text: str) -> str:
    """What somebody else said, on one line: nothing of it steers a terminal, or fills one.

    >>> in_a_line("no \\x1b[2Jspace left\\n on device")
    'no [2Jspace left on device'
    """
    printable = "".join(each if each.isprintable() else " " for each in text[:_MOST_LETTERS])
    return " ".join(printable.split())


def sentence_of(text: str) -> str:
    """What somebody else said, on one line and with a full stop.

    >>> sentence_of("no space left\\n on device")
    'no space left on device.'
    """
    text = in_a_line(text)
    return text if text.endswith((".", "!", "?")) else f"{text}."
