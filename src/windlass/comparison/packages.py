"""Compares lists of installed packages, whose lines have the form `name==version`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from windlass.comparison.changes import Change, find_changes

_NAME = rb"[A-Za-z0-9][A-Za-z0-9._-]*"
_PINNED = re.compile(rb"\s*(%s)\s*(?:\[[^\]]*\])?\s*(?:==|@)\s*([^\s;#\\]+)" % _NAME)


def read_packages(*lists: bytes) -> dict[str, str]:
    r"""Parse lists of packages. Return each package's version, by package name.

    If a package is in several lists, the last list wins.

    >>> read_packages(b"NumPy==1.26.4\nrequests==2.31\n", b"numpy==2.1.0 ; python_version > '3'\n")
    {'numpy': '2.1.0', 'requests': '2.31'}
    """
    versions: dict[str, str] = {}
    for listed in lists:
        versions.update(_pinned(listed))
    return dict(sorted(versions.items()))


def changed_packages(before: dict[str, str], after: dict[str, str]) -> tuple[Change, ...]:
    """Return the packages that differ between two trials, sorted by name.

    >>> [c.name + " " + c.kind for c in changed_packages({"a": "1", "c": "1"}, {"b": "1"})]
    ['a removed', 'b added', 'c removed']
    """
    return tuple(sorted(find_changes(before, after), key=lambda change: change.name))


def _pinned(listed: bytes) -> Iterable[tuple[str, str]]:
    for line in listed.splitlines():
        if match := _PINNED.match(line):
            name = re.sub(r"[-_.]+", "-", match[1].decode()).lower()  # as package indexes do
            yield name, match[2].decode("utf-8", "replace")
