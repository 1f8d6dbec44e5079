"""The schedule of tests over several processes (`pytest -n 4`).

One process runs all tests of a file. Tests on a cluster mostly wait for pods, and other tests
mostly compute: half of the processes run tests of each kind, while there are both. Tests that need
a cluster for themselves exclude all others from it: one process runs them while the others run
tests without a cluster, or they run at the end.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

KUBE, ALONE = "tests/on_kubernetes/", "tests/on_kubernetes/alone/"
_LONG = 20  # short tests: the weight of a test that waits


class Scheduling(LoadFileScheduling):
    """Assigns tests file by file, except for files that could only wait for each other."""

    def _split_scope(self, nodeid: str) -> str:
        return ALONE if nodeid.startswith(ALONE) else super()._split_scope(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(self._next_for(node), last=False)
        super()._assign_work_unit(node)

    def _next_for(self, node: WorkerController) -> str:
        """Return the next file:

        on the cluster, if less than half of the processes use the cluster.
        """
        first, *_ = self.workqueue
        busy = [scope for peer in self.nodes if peer is not node for scope in self._scopes_of(peer)]
        if first == ALONE or ALONE in busy:
            return first
        on_cluster = next((scope for scope in self.workqueue if scope.startswith(KUBE)), first)
        there = sum(scope.startswith(KUBE) for scope in busy)
        return on_cluster if there < len(self.nodes) // 2 else first

    def _scopes_of(self, node: WorkerController) -> set[str]:
        """The remaining files of a process."""
        assigned = self.assigned_work[node]
        return {scope for scope, tests in assigned.items() if not all(tests.values())}


def in_order(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Order the files: many tests first, then those on a cluster, then those that need it alone.

    A test that mostly waits starts early, so that the last of a run are short.
    """
    items = list(items)
    sizes: dict[str, int] = {}
    for item in items:
        weight = _LONG if item.get_closest_marker("waits") else 1
        sizes[_file_of(item)] = sizes.get(_file_of(item), 0) + weight
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
