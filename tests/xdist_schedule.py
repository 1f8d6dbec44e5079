"""Which process runs which tests, and when, where several run them (`pytest -n 4`).

A file is run by one process. Tests on a cluster mostly wait, for pods to come and to go, and others
mostly compute: half of the processes run each, while there are both. Tests that have a cluster for
themselves keep all others from it: they are run by one process, while the others run what needs no
cluster; or at the end, where all do.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

KUBE, ALONE = "tests/on_kubernetes/", "tests/on_kubernetes/alone/"


class Scheduling(LoadFileScheduling):
    """File by file, but for those that can only wait for each other."""

    def _split_scope(self, nodeid: str) -> str:
        return ALONE if nodeid.startswith(ALONE) else super()._split_scope(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(self._next_for(node), last=False)
        super()._assign_work_unit(node)

    def _next_for(self, node: WorkerController) -> str:
        """The file that is next: on the cluster, if less than half of the processes are."""
        first, *_ = self.workqueue
        busy = [scope for each in self.nodes if each is not node for scope in self._scopes_of(each)]
        if first == ALONE or ALONE in busy:
            return first
        on_cluster = next((each for each in self.workqueue if each.startswith(KUBE)), first)
        there = sum(scope.startswith(KUBE) for scope in busy)
        return on_cluster if there < len(self.nodes) // 2 else first

    def _scopes_of(self, node: WorkerController) -> set[str]:
        """What a process still has to do."""
        assigned = self.assigned_work[node]
        return {scope for scope, tests in assigned.items() if not all(tests.values())}


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
