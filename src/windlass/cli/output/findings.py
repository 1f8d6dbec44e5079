"""Prints the findings of checks as text or JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from windlass.model.check_results import Finding

__all__ = ["Finding", "print_finding", "print_findings"]

_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "error": ("✗", "red")}
_PLAIN_MARKS = {"ok": "ok", "warning": "!", "error": "x"}
_WIDTH = 12
_INDENT = _WIDTH + 3  # the column where text starts, after the mark and the check's name
_NARROWEST = 20


def print_findings(findings: Iterable[Finding], *, as_json: bool) -> int:
    """Print findings one by one. Return the exit code, which is 1 if any finding is an error."""
    if as_json:
        from windlass.cli.output.json import print_json

        printed = list(findings)
        print_json(printed)
        return _exit_code(printed)
    printed = []
    for finding in findings:
        print_finding(finding)
        printed.append(finding)
    return _exit_code(printed)


def _exit_code(findings: Iterable[Finding]) -> int:
    return 1 if any(finding.level == "error" for finding in findings) else 0


def print_finding(finding: Finding) -> None:
    """Print a finding, followed by its advice on the next lines."""
    from windlass.cli.output.text import can_print, clean, clean_lines, paint

    mark, colour = _MARKS[finding.level]
    if not can_print(mark):
        mark = _PLAIN_MARKS[finding.level]
    first, *others = _lines(clean(finding.text))
    print(f"{paint(mark, colour, bold=True)} {finding.check.ljust(_WIDTH)} {first}")
    for advice in clean_lines(finding.remedy).splitlines():
        others += _lines(advice)
    for line in others:
        print(f"{' ' * _INDENT}{line}")


def _lines(text: str) -> list[str]:
    """Wrap a finding's text to the width of its column in the terminal."""
    from windlass.cli.output.text import is_terminal
    from windlass.cli.output.wrap import wrap

    if not is_terminal(sys.stdout):
        return [text]
    import shutil

    return list(wrap(text, max(shutil.get_terminal_size().columns - _INDENT, _NARROWEST)))
