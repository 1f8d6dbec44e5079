"""Counting: what the operator has seen and done, for Prometheus to read."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

from windlass.controller.queue import WorkQueue
from windlass.controller.timing import Timing
from windlass.kube.connecting import Connection

CREATED, DELETED, SUCCEEDED, FAILED, RESTARTED = (
    "created", "deleted", "succeeded", "failed", "restarted",
)  # fmt: skip
_MEANINGS = {
    CREATED: "Jobs taken up.",
    DELETED: "Jobs deleted.",
    SUCCEEDED: "Jobs succeeded.",
    FAILED: "Jobs failed.",
    RESTARTED: "Restarts of replicas.",
}
_QUANTILES = (0.5, 0.9, 0.99)


class Counts:
    """How often what happened to jobs, by namespace and kind; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._requests: Counter[str] = Counter()

    def add_request(self, method: str) -> None:
        """The API was asked for something."""
        with self._lock:
            self._requests[method] += 1

    def add(self, what: str, namespace: str, kind: str, number: int = 1) -> None:
        """It happened."""
        with self._lock:
            self._counts[what, namespace, kind] += number

    def get(self, what: str, namespace: str, kind: str) -> int:
        """How often it happened."""
        with self._lock:
            return self._counts[what, namespace, kind]

    def lines(self) -> Iterator[str]:
        """The counters in the form of Prometheus."""
        with self._lock:
            counts = sorted(self._counts.items())
            requests = sorted(self._requests.items())
        for what, meaning in _MEANINGS.items():
            name = f"windlass_operator_jobs_{what}_total"
            yield f"# HELP {name} {meaning}"
            yield f"# TYPE {name} counter"
            for (counted, namespace, kind), number in counts:
                if counted == what:
                    yield f'{name}{{namespace="{namespace}",kind="{kind}"}} {number}'
        yield "# HELP windlass_operator_api_requests_total Requests to the API of the cluster."
        yield "# TYPE windlass_operator_api_requests_total counter"
        for method, number in requests:
            yield f'windlass_operator_api_requests_total{{method="{method}"}} {number}'


@dataclass(frozen=True, kw_only=True)
class CountedConnection(Connection):
    """A connection that tells of every request."""

    on_request: Callable[[str], None]

    def open(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """As any connection does, once it has told."""
        self.on_request(method)
        return super().open(method, path, body, **more)


def counted(connection: Connection, counts: Counts) -> Connection:
    """The same connection, whose requests are counted."""
    known = {each.name: getattr(connection, each.name) for each in fields(connection)}
    return CountedConnection(**known, on_request=counts.add_request)


def exposition(counts: Counts, queue: WorkQueue, timing: Timing, *, leads: bool) -> str:
    """All there is to read, in the text form of Prometheus.

    >>> counts = Counts()
    >>> counts.add(CREATED, "lab", "TFJob")
    >>> print(exposition(counts, WorkQueue(), Timing(), leads=True).splitlines()[2])
    windlass_operator_jobs_created_total{namespace="lab",kind="TFJob"} 1
    """
    name = "windlass_operator_reconcile_seconds"
    return "\n".join(
        [
            *counts.lines(),
            "# HELP windlass_operator_queue_depth Jobs that are due for a look.",
            "# TYPE windlass_operator_queue_depth gauge",
            f"windlass_operator_queue_depth {len(queue)}",
            f"# HELP {name} How long a look at a job takes.",
            f"# TYPE {name} summary",
            *(f'{name}{{quantile="{each}"}} {timing.quantile(each):.6f}' for each in _QUANTILES),
            f"{name}_sum {timing.total:.6f}",
            f"{name}_count {timing.count}",
            "# HELP windlass_operator_leader Whether this instance is the one that acts.",
            "# TYPE windlass_operator_leader gauge",
            f"windlass_operator_leader {int(leads)}",
            "",
        ]
    )
