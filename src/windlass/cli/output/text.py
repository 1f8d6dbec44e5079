"""Messages, colours and readable times for terminal output."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from windlass.client.terminal.screen import can_encode, may_colour
from windlass.client.terminal.screen import is_terminal as is_terminal
from windlass.display.table import STATE_COLOURS
from windlass.model.records import TrialState
from windlass.model.text.display import clean as clean
from windlass.model.text.display import clean_lines as clean_lines
from windlass.model.text.quantities import format_ago as format_ago


def can_print(text: str) -> bool:
    """Return whether stdout's encoding supports the given characters."""
    return can_encode(sys.stdout, text)


def paint(text: str, colour: str | None = None, *, bold: bool = False, dim: bool = False) -> str:
    """Style text for stdout, if stdout is a terminal with colours."""
    if not (text and (colour or bold or dim) and may_colour(sys.stdout)):
        return text
    return click.style(text, fg=colour, bold=bold or None, dim=dim or None)


def state_colour(state: TrialState) -> str:
    """Return the colour in which to show a state."""
    return STATE_COLOURS[state]


def print_message(text: str) -> None:
    """Print a message to stderr, for remarks about the output that are not output themselves."""
    sys.stdout.flush()
    print(text, file=sys.stderr, flush=True)


@contextmanager
def warnings_as_messages() -> Iterator[None]:
    """Print Python warnings raised in the `with` block as messages.

    For example, such a warning reports unknown names in a query.
    """
    import warnings

    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("ignore")  # warnings from Python itself, such as at server start
        warnings.simplefilter("always", UserWarning)
        yield
    for doubt in doubts:
        print_message(str(doubt.message))


def print_error(text: str) -> None:
    """Print an error to stderr, without control characters."""
    prefix = "Error:"
    if may_colour(sys.stderr):
        prefix = click.style(prefix, fg="red", bold=True)
    print_message(f"{prefix} {clean_lines(text)}")


def format_moment(moment: float) -> str:
    """Format a moment in local time."""
    import time

    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))


def counted(number: int, noun: str) -> str:
    """Format a number with its noun, in the singular or plural.

    >>> counted(1, "trial"), counted(3, "trial")
    ('1 trial', '3 trials')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
