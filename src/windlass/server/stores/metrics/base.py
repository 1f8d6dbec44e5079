"""The protocol of a metric store: the points that attempts report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

from windlass.model.job import Job
from windlass.model.metrics import FetchMetrics, Points
from windlass.model.status import ReplicaId
from windlass.server.stores.metrics.columns import Column

Wanted = Callable[[str], bool]  # whether a metric of that name is requested


class CurvePosition(NamedTuple):
    """The position of a client in one metric of one attempt."""

    number: int  # of points
    position: int  # after the last of them


CurvePositions = dict[tuple[int, str, int, int], CurvePosition]  # by trial, role, index and attempt


class MetricStore(Protocol):
    """Points and their summaries. All methods may be called from any thread."""

    def read_to_end(self, job: Job, ended: Iterable[ReplicaId], /) -> None:
        """Count all points of attempts that have ended."""

    def forget(self, uid: str, /) -> None:
        """Free the memory of a job that reports nothing more."""

    def fetch_curves(self, request: FetchMetrics, /) -> bytes:
        """The pack of curves that answers a request."""

    def new_points(
        self, trial_id: int, name: str, positions: CurvePositions, /
    ) -> Iterator[Points]:
        """The points of a metric beyond `positions`, which move to the last point read."""

    def columns(
        self, trial_id: int, wanted: Wanted, /
    ) -> Iterator[tuple[ReplicaId, dict[str, Column]]]:
        """All points of the wanted metrics, a piece of an attempt at a time."""

    def sizes(self, trial_id: int, /) -> tuple[int, ...]:
        """The amount of data of each attempt: other sizes mean new points."""
