"""The metrics of trials, as summaries or as points."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.client.connection.transport import Transport, request_path
from windlass.client.resources.trial.curves import Curve, to_numpy, to_pandas, unpack
from windlass.model.errors import InvalidArgument, NotFound, shown
from windlass.model.metrics import FetchMetrics, near_metric
from windlass.model.records import Summary, TrialRecord, is_own_metric

if TYPE_CHECKING:
    from windlass.client.connection.event_stream import TrialEvents
    from windlass.client.resources.trial.trial import Trial


class Point(msgspec.Struct, frozen=True):
    """One reported value of a metric, with its time, step and replica.

    ```python
    trial = train.submit(0.1).wait()
    for point in trial.metrics("loss"):
        print(point.step, point.value)
    ```
    """

    step: int
    time: float
    value: float
    role: str
    index: int
    attempt: int
    name: str
    trial_id: int = 0


class Summaries(Mapping[str, Summary]):
    """A mapping from a trial's metric names to summaries.

    The error for a missing name lists the names that exist.
    """

    def __init__(self, record: TrialRecord) -> None:
        self._record = record

    def __getitem__(self, name: str) -> Summary:
        summary = self._record.metrics.get(name)
        if summary is None:
            raise MissingMetric(self._explain(name))
        return summary

    def __contains__(self, name: object) -> bool:
        return name in self._record.metrics

    def __iter__(self) -> Iterator[str]:
        return iter(self._record.metrics)

    def __len__(self) -> int:
        return len(self._record.metrics)

    def __repr__(self) -> str:
        return repr(self._record.metrics)

    def _explain(self, name: str) -> str:
        record = self._record
        which = f"Trial {record.id} ({record.name})"
        if not record.metrics:
            so_far = "" if record.state.is_final else " so far"
            return f"{which} has reported no metrics{so_far}: there is no {name!r}."
        return f"{which} has no metric {name!r}.{_near(name, record.metrics, 'It has')}"


def _near(name: str, metrics: Collection[str], what: str) -> str:
    """Return error text that suggests a similar metric name and lists the names that exist."""
    near = near_metric(name, metrics)
    guess = f" Did you mean {near!r}?" if near else ""
    names = [metric for metric in metrics if is_own_metric(metric)] or list(metrics)
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return f"{guess} {what}: {', '.join(names[:20])}{more}."


class MissingMetric(NotFound, KeyError):
    """Raised for a missing metric, as both a `wl.NotFound` and a `KeyError`."""


class Metrics:
    """The points of one or more metrics, fetched on first use.

    Iterating yields one `wl.Point` at a time, in constant memory. `to_numpy` and `to_pandas`
    convert all points at once. With `follow=True`, iterating also yields new points as they are
    reported, until the trial ends. In asynchronous code, use `async for`, which does not block the
    event loop.

    ```python
    trial = train.submit(0.1).wait()
    loss = trial.metrics("loss", max_points=1000)
    print(loss.to_pandas().tail())
    ```
    """

    def __init__(
        self,
        transport: Transport,
        request: FetchMetrics,
        *,
        follow: bool = False,
        timeout: float | None = None,
    ) -> None:
        self._transport = transport
        self._request = request
        self._follow = follow
        self._timeout = timeout

    def __iter__(self) -> Iterator[Point]:
        for curve in self._fetched(self._following()):
            yield from _points(curve)

    async def __aiter__(self) -> AsyncIterator[Point]:
        import asyncio

        following = self._following()
        curves = self._fetched(following)
        try:
            while (curve := await asyncio.to_thread(next, curves, None)) is not None:
                for point in _points(curve):
                    yield point
        finally:
            if following is not None:
                following.cut()

    def curves(self) -> Iterator[Curve]:
        """Yield the points as curves, one for each metric, replica and attempt."""
        return self._fetched(self._following())

    def to_numpy(self) -> Any:
        """Return all points as one structured NumPy array.

        The fields are `step`, `time`, `value`, `index`, `attempt` and `trial`.

        ```python
        loss = trial.metrics("loss").to_numpy()
        print(loss["value"].min(), loss["step"][loss["value"].argmin()])
        ```
        """
        return to_numpy(list(self.curves()))

    def to_pandas(self) -> Any:
        """Return all points as a pandas data frame with one row per point.

        The columns are the fields of `to_numpy`, plus `role` and `name`.

        ```python
        loss = trial.metrics("loss").to_pandas()
        print(loss.groupby("attempt")["value"].min())
        ```
        """
        return to_pandas(list(self.curves()))

    def __repr__(self) -> str:
        fields = msgspec.structs.asdict(self._request)
        shown_fields = [
            f"{name}={value!r}" for name, value in fields.items() if value not in (None, {})
        ]
        return f"Metrics({', '.join(shown_fields)})"

    def _repr_html_(self) -> str:
        from windlass.client.resources.notebook_html import metrics_html

        return metrics_html(self._transport, self._request)

    def _following(self) -> TrialEvents | None:
        if not self._follow:
            return None
        from windlass.client.connection.event_stream import TrialEvents

        [trial_id] = self._request.trials
        return TrialEvents(self._transport, trial_id=trial_id, logs=False, timeout=self._timeout)

    def _fetched(self, following: TrialEvents | None) -> Iterator[Curve]:
        """Yield the curves reported so far.

        If `following` is set, also yield curves of new points.
        """
        request = self._request
        unseen = {full_name(request.group, name) for name in request.names or ()}
        for _news in following or [None]:  # each event may announce more points
            while True:
                data = self._transport.fetch("POST", "/metrics", body=request)
                head, curves = unpack(data)
                unseen -= {curve_head.name for curve_head in head.curves}
                if following is None and not head.more:
                    self._explain_absence(unseen)
                yield from curves
                request = msgspec.structs.replace(request, positions=head.positions)
                if not head.more:
                    break
        if following is not None:
            self._explain_absence(unseen)

    def _explain_absence(self, unseen: set[str]) -> None:
        """Raise an error for a name in `unseen` that is not a metric of any trial.

        There is no error while an unfinished trial may still report the metric.
        """
        records: list[TrialRecord] = []
        for trial_id in self._request.trials if unseen else ():
            record = self._transport.ask("GET", request_path("trials", trial_id), TrialRecord)
            unseen = unseen - record.metrics.keys()  # another replica or attempt may have it
            if not unseen or not record.state.is_final:
                return
            records.append(record)
        with_metrics = [record for record in records if record.metrics]
        if len(records) == 1 or len(with_metrics) == 1:
            _ = Summaries((with_metrics or records)[0])[min(unseen)]
        elif records:
            name = min(unseen)
            there = sorted({metric for record in with_metrics for metric in record.metrics})
            who = f"None of the {len(self._request.trials)} trials has a metric {name!r}."
            raise MissingMetric(who + (_near(name, there, "There is") if there else ""))


def fetch_metrics(
    transport: Transport,
    trials: Sequence[int],
    names: Collection[str] | str | None,
    *,
    group: str | None = None,
    role: str | None = None,
    index: int | None = None,
    attempt: int | None = None,
    max_points: int | None = None,
    follow: bool = False,
    timeout: float | None = None,
) -> Metrics:
    """Check the arguments of a metrics request and return the metrics."""
    if isinstance(names, str):
        names = [names]
    is_collection = names is None or isinstance(names, (list, tuple, set, frozenset))
    if not is_collection or not all(isinstance(name, str) for name in names or ()):
        raise InvalidArgument(
            f"{shown(names)} is not a valid metric name.", hint='For example: trial.metrics("loss")'
        )
    for what, number in (("max_points", max_points), ("index", index), ("attempt", attempt)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
            raise InvalidArgument(f"{what}: {shown(number)} is not a whole number.")
    if max_points is not None and not 0 < max_points <= 10_000_000:
        raise InvalidArgument(f"max_points: {max_points} is not between 1 and 10,000,000.")
    if follow and max_points is not None:
        raise InvalidArgument(
            "max_points cannot be used with follow, which yields every point.",
            hint="Remove follow or max_points.",
        )
    request = FetchMetrics(
        trials=tuple(trials),
        names=None if names is None else tuple(names),
        group=group,
        role=role,
        index=index,
        attempt=attempt,
        max_points=max_points,
    )
    return Metrics(transport, request, follow=follow, timeout=timeout)


def metrics_of_trials(
    transport: Transport,
    trials: Iterable[Trial[Any] | int] | Trial[Any] | int,
    names: Collection[str] | str | None,
    *,
    group: str | None,
    max_points: int | None,
) -> Metrics:
    """Return the metrics of up to 1000 trials, given as trials or ids."""
    from windlass.client.resources.trial.list_query import trial_ids
    from windlass.client.resources.trial.trial import Trial

    ids = trial_ids([trials] if isinstance(trials, (Trial, int)) else trials)
    if not 0 < len(ids) <= 1000:
        raise InvalidArgument(
            f"{len(ids)} trials were named. Name 1 to 1000 trials.",
            hint="See: windlass ls",
        )
    return fetch_metrics(transport, ids, names, group=group, max_points=max_points)


def full_name(group: str | None, name: str) -> str:
    """Return a metric's name as used in summaries, with its group as a prefix.

    Metrics in the default group "training" have no prefix.

    >>> full_name(None, "loss"), full_name("validation", "loss")
    ('loss', 'validation/loss')
    """
    return name if group in (None, "training") else f"{group}/{name}"


def _points(curve: Curve) -> Iterator[Point]:
    head = curve.head
    whose = (head.role, head.index, head.attempt, head.name, head.trial_id)
    for step, time, value in zip(curve.steps, curve.times, curve.values, strict=True):
        yield Point(step, time, value, *whose)
