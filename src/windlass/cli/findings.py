"""Findings of a check, told to people and programs."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from windlass.model.findings import Finding

__all__ = ["Finding", "print_finding", "tell"]

_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "error": ("✗", "red")}
_PLAIN_MARKS = {"ok": "ok", "warning": "!", "error": "x"}
_WIDTH = 12


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
    from windlass.cli.text import clean, paint

    mark, colour = _MARKS[finding.level]
    if not _can_print(mark):
        mark = _PLAIN_MARKS[finding.level]
    print(f"{paint(mark, colour, bold=True)} {finding.check.ljust(_WIDTH)} {clean(finding.text)}")
    for line in finding.mend.splitlines():
        print(f"  {' ' * _WIDTH} {line}")


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
