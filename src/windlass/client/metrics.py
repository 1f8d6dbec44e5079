"""What trials reported, as users look at it: summaries by name, points one after another."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

import msgspec

from windlass.client.transport import Transport, path_of
from windlass.model.records import Summary, TrialRecord
from windlass.model.wire import PointsPage


class Point(msgspec.Struct, frozen=True):
    """One value that was reported, when, at which step, by whom.

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


class Summaries(Mapping[str, Summary]):
    """The summaries of a trial by name; one that is not there says which are."""

    def __init__(self, record: TrialRecord) -> None:
        self._record = record

    def __getitem__(self, name: str) -> Summary:
        found = self._record.metrics.get(name)
        if found is None:
            raise _Missing(self._explain(name))
        return found

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
        in_a_group = [each for each in record.metrics if each.endswith(f"/{name}")]
        near = in_a_group or difflib.get_close_matches(str(name), record.metrics, n=1)
        guess = f" Did you mean {near[0]!r}?" if near else ""
        names = list(record.metrics)
        more = f" and {len(names) - 20} more" if len(names) > 20 else ""
        return f"{which} has no metric {name!r}.{guess} It has: {', '.join(names[:20])}{more}."


class _Missing(KeyError):
    """A KeyError whose text is shown as it is."""

    def __str__(self) -> str:
        return str(self.args[0])


def points_of(transport: Transport, trial_id: int, name: str | None) -> Iterator[Point]:
    """The points of a trial, lazily: each page is asked for when it is needed.

    A `KeyError` for a name that the trial has not: one that goes on may yet report it.
    """
    cursor: str | None = None
    is_empty = True
    while True:
        query = {"name": name, "cursor": cursor}
        path = path_of("trials", trial_id, "metrics")
        page = transport.ask("GET", path, PointsPage, query=query)
        for points in page.items:
            whose = (points.role, points.index, points.attempt, points.name)
            for step, when, value in zip(points.steps, points.times, points.values, strict=True):
                is_empty = False
                yield Point(step, when, float(value), *whose)
        cursor = page.next
        if cursor is None:
            break
    if name is not None and is_empty:
        record = transport.ask("GET", path_of("trials", trial_id), TrialRecord)
        if record.state.is_final and record.metrics:
            _ = Summaries(record)[name]
