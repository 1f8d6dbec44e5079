"""Prints sections of a page, each with a title and labelled values."""

from __future__ import annotations

from collections.abc import Iterator

Lines = Iterator[tuple[str, str]]  # label and value


def print_section(title: str, lines: Lines) -> None:
    """Print labels and values below a title. Empty values are skipped."""
    from windlass.cli.output.text import clean, paint

    shown = [(clean(label), clean(value)) for label, value in lines if value]
    if not shown:
        return
    print()
    if title:
        print(paint(title, bold=True))
    width = max([len(label) for label, _ in shown] + [11])
    for label, value in shown:
        print(f"  {paint(label.ljust(width), dim=True)}  {value}")


def print_notes(notes: str) -> None:
    """Print the user-written notes, if there are any."""
    from windlass.cli.output.text import clean_lines, paint

    if notes.strip():
        print()
        print(paint("Notes", bold=True))
        for line in clean_lines(notes.strip("\n")).split("\n"):
            print(f"  {line}".rstrip())
