"""Findings: what a check looked at, how it is, and how to mend it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import NamedTuple

_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "error": ("✗", "red")}
_PLAIN_MARKS = {"ok": "ok", "warning": "!", "error": "x"}
_WIDTH = 12


class Finding(NamedTuple):
    """One thing that was looked at: how it is, and how to mend it."""

    check: str
    level: str  # "ok" | "warning" | "error"
    text: str
    mend: str = ""


def tell(findings: Iterable[Finding], *, as_json: bool) -> int:
    """Print them as they come; the exit code, 1 if something must be mended."""
    if as_json:
        from windlass.cli.machine import print_json

        found = list(findings)
        print_json([finding._asdict() for finding in found])
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
