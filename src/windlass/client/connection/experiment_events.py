"""Follows an experiment's state, and its trials' states and metrics."""

from __future__ import annotations

import contextlib

import msgspec

from windlass.client.connection.event_stream import Stream
from windlass.client.connection.http import EventStream, StreamEvent
from windlass.client.connection.transport import Transport, decode, request_path
from windlass.model.errors import WaitTimeout
from windlass.model.metrics import Points
from windlass.model.records import ExperimentRecord, TrialRecord

ExperimentNews = ExperimentRecord | TrialRecord | Points


class ExperimentEvents(Stream[ExperimentNews]):
    """The current records of an experiment and its trials, followed by all changes.

    The iterator never ends on its own. It yields the experiment first, then every trial, and then
    rounds of changed trials. Each round ends with the experiment's record. That record may be
    slightly newer than the round's trials, so a trial that ended in the meantime follows in the
    next round.

    If `metric` is set, the iterator also yields this metric's reported values. It yields each value
    once, even if the server restarts, and all of a trial's values before that trial's end.

    With `created_after`, trials that were created earlier are left out as long as they do not
    change.

    ```python
    for news in ExperimentEvents(transport, experiment.id, metric="loss"):
        if isinstance(news, TrialRecord) and news.state.is_final:
            ...
    ```
    """

    def __init__(
        self,
        transport: Transport,
        experiment_id: int,
        *,
        metric: str | None = None,
        created_after: float | None = None,
        timeout: float | None = None,
    ) -> None:
        super().__init__(transport, timeout=timeout)
        self._experiment_id = experiment_id
        self._query = {"metric": metric, "created_after": created_after}
        self._received: dict[tuple[int, str, int, int], int] = {}

    def _open(self) -> contextlib.AbstractContextManager[EventStream]:
        path = request_path("experiments", self._experiment_id, "stream")
        return self._transport.stream("GET", path, query=self._query)

    def _decode(self, event: StreamEvent) -> ExperimentNews | None:
        if event.name == "experiment":
            return decode(event.data, ExperimentRecord)
        if event.name == "trial":
            return decode(event.data, TrialRecord)
        return self._unseen_points(decode(event.data, Points))

    def _unseen_points(self, points: Points) -> Points | None:
        """Return those of a metric's points that were not received before, or None.

        A restarted server sends all points again.
        """
        key = (points.trial_id, points.role, points.index, points.attempt)
        received = self._received.get(key, 0)
        first = max(received - points.start, 0)
        if first >= len(points.values):
            return None
        self._received[key] = points.start + len(points.values)
        return msgspec.structs.replace(
            points,
            start=points.start + first,
            steps=points.steps[first:],
            times=points.times[first:],
            values=points.values[first:],
        )

    def _too_late(self, limit: str) -> WaitTimeout:
        number = self._experiment_id
        return WaitTimeout(
            f"Experiment {number} did not end within {limit}. It continues to run.",
            hint=f"Wait again, or stop it: wl.get_experiment({number}).stop()",
        )
