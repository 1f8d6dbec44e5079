"""Explains a failure by a reason, a sentence and a remedy."""

from __future__ import annotations

import msgspec

from windlass.model.errors import WindlassError

_MOST_LETTERS = 2000  # the most characters that are shown of another program's text


class Explanation(msgspec.Struct, frozen=True):
    """The cause of a failure and a remedy for it."""

    reason: str  # one word for programs, such as Unschedulable or ImageMissing
    sentence: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{in_a_line(self.sentence)} {self.remedy}".strip()


def one_line_error(error: WindlassError) -> str:
    """Return an error's message and hint on one line.

    >>> one_line_error(WindlassError("The quota has no room", hint="Ask for less."))
    'The quota has no room. Ask for less.'
    >>> one_line_error(WindlassError("its pod is still there"))
    'its pod is still there'
    """
    if not error.hint:
        return error.message
    return str(Explanation(error.code, to_sentence(error.message), _on_one_line(error.hint)))


def _on_one_line(hint: str) -> str:
    """Return a hint on one line. Commands on consecutive lines are joined with `&&`.

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
    """Shorten another program's text, remove control characters, and return it on one line.

    >>> in_a_line("no \\x1b[2Jspace left\\n on device")
    'no [2Jspace left on device'
    """
    printable = "".join(letter if letter.isprintable() else " " for letter in text[:_MOST_LETTERS])
    return " ".join(printable.split())


def to_sentence(text: str) -> str:
    """Return another program's text on one line, ending with a full stop.

    >>> to_sentence("no space left\\n on device")
    'no space left on device.'
    """
    text = in_a_line(text)
    return text if text.endswith((".", "!", "?")) else f"{text}."
