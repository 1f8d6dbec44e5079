"""The operator's metrics, in the Prometheus text format."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

from windlass.controller.controller import Controller
from windlass.installation import extra_hint
from windlass.kube.api.connection import Connection
from windlass.model.errors import Unsupported

try:
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        Metric,
        SummaryMetricFamily,
    )
    from prometheus_client.registry import Collector
except ModuleNotFoundError:
    raise Unsupported(
        "The operator needs the package prometheus-client, which is not installed here.",
        hint=extra_hint("kubernetes", "kubernetes prometheus-client"),
    ) from None

CREATED, DELETED, SUCCEEDED, FAILED, RESTARTED = (
    "created", "deleted", "succeeded", "failed", "restarted",
)  # fmt: skip
_JOB_HELP = {
    CREATED: "Jobs taken up.",
    DELETED: "Jobs deleted.",
    SUCCEEDED: "Jobs succeeded.",
    FAILED: "Jobs failed.",
    RESTARTED: "Restarts of replicas.",
}
_QUANTILES = (0.5, 0.9, 0.99)


class Counts:
    """Counters for job transitions and API requests. All methods are thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: Counter[tuple[str, str, str]] = Counter()
        self._requests: Counter[str] = Counter()

    def add_request(self, method: str) -> None:
        """Count a request to the Kubernetes API."""
        with self._lock:
            self._requests[method] += 1

    def add(self, transition: str, namespace: str, kind: str, number: int = 1) -> None:
        """Count `number` transitions of jobs, such as `CREATED`."""
        with self._lock:
            self._jobs[transition, namespace, kind] += number

    def collect(self) -> Iterator[Metric]:
        """Yield the counters as Prometheus metric families."""
        with self._lock:
            jobs, requests = sorted(self._jobs.items()), sorted(self._requests.items())
        for transition, description in _JOB_HELP.items():
            name = f"windlass_operator_jobs_{transition}"
            family = CounterMetricFamily(name, description, labels=("namespace", "kind"))
            for (counted, namespace, kind), number in jobs:
                if counted == transition:
                    family.add_metric((namespace, kind), number)
            yield family
        family = CounterMetricFamily(
            "windlass_operator_api_requests",
            "Requests to the API of the cluster.",
            labels=("method",),
        )
        for method, number in requests:
            family.add_metric((method,), number)
        yield family


class OperatorCollector(Collector):
    """Collects the counters and the state of the current controller for each scrape.

    `controller` returns the current controller. `is_leader` returns whether this instance is the
    leader.
    """

    def __init__(
        self, counts: Counts, controller: Callable[[], Controller], is_leader: Callable[[], bool]
    ) -> None:
        self._counts = counts
        self._controller = controller
        self._is_leader = is_leader

    def collect(self) -> Iterator[Metric]:
        """Yield all metric families of the operator."""
        controller = self._controller()
        latency = controller.latency
        yield from self._counts.collect()
        yield GaugeMetricFamily(
            "windlass_operator_queue_depth",
            "Jobs that are due for reconciliation.",
            len(controller.queue),
        )
        name = "windlass_operator_reconcile_seconds"
        summary = SummaryMetricFamily(
            name,
            "Duration of one reconciliation of a job.",
            count_value=latency.count,
            sum_value=latency.total,
        )
        for quantile in _QUANTILES:
            summary.add_sample(name, {"quantile": str(quantile)}, latency.quantile(quantile))
        yield summary
        yield GaugeMetricFamily(
            "windlass_operator_leader",
            "1 if this instance is the leader, else 0.",
            int(self._is_leader()),
        )


def exposition(collector: Collector) -> str:
    """Return the text that a Prometheus scrape gets from a collector."""
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry).decode()


@dataclass(frozen=True, kw_only=True)
class CountedConnection(Connection):
    """A connection that passes the HTTP method of every request to `on_request`."""

    on_request: Callable[[str], None]

    def open(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """Report the method to `on_request` and then send the request."""
        self.on_request(method)
        return super().open(method, path, body, **more)


def counted(connection: Connection, counts: Counts) -> Connection:
    """Return a copy of a connection that counts its requests in `counts`."""
    values = {field.name: getattr(connection, field.name) for field in fields(connection)}
    return CountedConnection(**values, on_request=counts.add_request)
