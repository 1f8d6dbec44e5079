"""Words and colours for people: what is printed, in which shade, and times as people say them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import click

from windlass.model.quantities import format_duration
from windlass.model.records import TrialState
from windlass.model.text import clean as clean
from windlass.model.text import clean_lines as clean_lines

_STATE_COLOURS = {
    TrialState.QUEUED: "yellow",
    TrialState.STARTING: "cyan",
    TrialState.RUNNING: "cyan",
    TrialState.RESTARTING: "yellow",
    TrialState.SUSPENDED: "yellow",
    TrialState.STOPPING: "yellow",
    TrialState.SUCCEEDED: "green",
    TrialState.FAILED: "red",
    TrialState.STOPPED: "magenta",
}


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at it."""
    return stream.isatty()


def is_coloured(stream: TextIO) -> bool:
    """Whether colours are wanted there: a terminal that can, and nobody said no."""
    return (
        is_terminal(stream)
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") not in ("dumb", "")
    )


def can_print(text: str) -> bool:
    """Whether stdout has these characters."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def paint(text: str, colour: str | None = None, *, bold: bool = False, dim: bool = False) -> str:
    """A text for stdout, coloured if stdout is."""
    if not (text and (colour or bold or dim) and is_coloured(sys.stdout)):
        return text
    return click.style(text, fg=colour, bold=bold or None, dim=dim or None)


def state_colour(state: TrialState) -> str:
    """The colour a state is shown in."""
    return _STATE_COLOURS[state]


def say(text: str) -> None:
    """Print a line on stderr: something said about the output, not the output itself."""
    sys.stdout.flush()
    print(text, file=sys.stderr, flush=True)


@contextmanager
def saying_doubts() -> Iterator[None]:
    """Say in words what Python would warn of: a name that was asked for and no trial has."""
    import warnings

    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("ignore")  # Python's own, as of a server that was just started
        warnings.simplefilter("always", UserWarning)
        yield
    for doubt in doubts:
        say(str(doubt.message))


def say_error(text: str) -> None:
    """Print an error on stderr, whatever somebody wrote that it repeats."""
    prefix = "Error:"
    if is_coloured(sys.stderr):
        prefix = click.style(prefix, fg="red", bold=True)
    say(f"{prefix} {clean_lines(text)}")


def format_ago(moment: float, now: float) -> str:
    """How long ago something was, roughly.

    >>> [format_ago(1000.0 - s, now=1000.0) for s in (0.2, 3.7, 200, 7500)]
    ['just now', '3s ago', '3m ago', '2h ago']
    """
    passed = int(now - moment)
    if passed < 1:
        return "just now"
    return format_duration(passed).split()[0].replace(".0s", "s") + " ago"


def format_moment(moment: float) -> str:
    """A moment in local time."""
    import time

    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))


def counted(number: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "trial"), counted(3, "trial")
    ('1 trial', '3 trials')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
