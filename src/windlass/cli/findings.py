"""Findings of a check, told to people and programs."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from windlass.model.findings import Finding

__all__ = ["Finding", "print_finding", "tell"]

_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "error": ("✗", "red")}
_PLAIN_MARKS = {"ok": "ok", "warning": "!", "error": "x"}
_WIDTH = 12
_INDENT = _WIDTH + 3  # where the text begins: after the mark and what was looked at
_NARROWEST = 20


def tell(findings: Iterable[Finding], *, as_json: bool) -> int:
    """Print them as they come; the exit code, 1 if something must be mended."""
    if as_json:
        from windlass.cli.machine import print_json

        found = list(findings)
        print_json(found)
        return _exit_code(found)
    found = []
    for finding in findings:
        print_finding(finding)
        found.append(finding)
    return _exit_code(found)


def _exit_code(findings: Iterable[Finding]) -> int:
    return 1 if any(finding.level == "error" for finding in findings) else 0


def print_finding(finding: Finding) -> None:
    """One of them, with what to do below it."""
    from windlass.cli.text import can_print, clean, clean_lines, paint

    mark, colour = _MARKS[finding.level]
    if not can_print(mark):
        mark = _PLAIN_MARKS[finding.level]
    first, *others = _lines(clean(finding.text))
    print(f"{paint(mark, colour, bold=True)} {finding.check.ljust(_WIDTH)} {first}")
    for advice in clean_lines(finding.mend).splitlines():
        others += _lines(advice)
    for line in others:
        print(f"{' ' * _INDENT}{line}")


def _lines(text: str) -> list[str]:
    """As it is printed in its column: in a terminal no wider than that has room."""
    from windlass.cli.text import is_terminal
    from windlass.cli.wrapping import wrap

    if not is_terminal(sys.stdout):
        return [text]
    import shutil

    return list(wrap(text, max(shutil.get_terminal_size().columns - _INDENT, _NARROWEST)))
