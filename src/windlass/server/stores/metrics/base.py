"""The protocol of a metric store, which provides the points that attempts report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

from windlass.model.job import Job
from windlass.model.metrics import FetchMetrics, Points
from windlass.model.status import ReplicaId
from windlass.server.stores.metrics.columns import Column

Wanted = Callable[[str], bool]  # returns whether a metric with this name is requested


class CurvePosition(NamedTuple):
    """How far a client has read the points of one metric from one attempt."""

    number: int  # the number of points received
    position: int  # the position in the file after the last received point


CurvePositions = dict[tuple[int, str, int, int], CurvePosition]  # by trial, role, index and attempt


class MetricStore(Protocol):
    """Stores metric points and their summaries. All methods are thread-safe."""

    def read_to_end(self, job: Job, ended: Iterable[ReplicaId], /) -> None:
        """Read and count all metric points of attempts that have ended."""

    def forget(self, uid: str, /) -> None:
        """Free the memory used for the metrics of a job that reports no more points."""

    def fetch_curves(self, request: FetchMetrics, /) -> bytes:
        """Return the requested curves in one binary message."""

    def new_points(
        self, trial_id: int, name: str, positions: CurvePositions, /
    ) -> Iterator[Points]:
        """Yield the points of a metric that follow `positions`, and advance `positions`."""

    def columns(
        self, trial_id: int, wanted: Wanted, /
    ) -> Iterator[tuple[ReplicaId, dict[str, Column]]]:
        """Yield all points of the metrics that `wanted` selects, in pieces.

        Each piece contains an attempt and, for each metric, a column of points that this attempt
        reported.
        """

    def sizes(self, trial_id: int, /) -> tuple[int, ...]:
        """Return how much metric data each of a trial's attempts has written.

        If a size changes, there are new points.
        """
