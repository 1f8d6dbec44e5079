"""Which process runs which tests, and when, where several run them (`pytest -n 3`).

A file is run by one process. Tests that have a cluster for themselves keep all others from it: they
are run by one process, while the others run what needs no cluster; or at the end, where all do.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from xdist.scheduler import LoadFileScheduling

KUBE, ALONE = "tests/kube/", "tests/kube/alone/"


class Scheduling(LoadFileScheduling):
    """File by file, but for those that can only wait for each other."""

    def _split_scope(self, nodeid: str) -> str:
        return ALONE if nodeid.startswith(ALONE) else super()._split_scope(nodeid)


def in_order(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Files with many tests first, those on a cluster after the rest, the lonely as said above."""
    items = list(items)
    sizes: dict[str, int] = {}
    for item in items:
        sizes[_file_of(item)] = sizes.get(_file_of(item), 0) + 1
    others = [item for item in items if not item.nodeid.startswith(KUBE)]
    shared = [
        item for item in items if item.nodeid.startswith(KUBE) and not item.nodeid.startswith(ALONE)
    ]
    alone = [item for item in items if item.nodeid.startswith(ALONE)]
    for group in (others, shared):
        group.sort(key=lambda item: (-sizes[_file_of(item)], _file_of(item)))
    return [*alone, *others, *shared] if others else [*shared, *alone]


def _file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
