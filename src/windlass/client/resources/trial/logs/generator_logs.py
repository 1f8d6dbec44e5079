"""Merges the logs of a generator's child trials, with the trial's name on each line.

A generator is a user function that adds child trials to its own trial.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from windlass.client.connection.event_stream import TrialEvents
from windlass.client.connection.experiment_events import ExperimentEvents
from windlass.client.connection.transport import Transport
from windlass.client.resources.trial.list_query import list_trials
from windlass.client.resources.trial.logs.pages import first_lines, pages
from windlass.client.resources.trial.replica_names import has_several
from windlass.model.logs import LogPage, LogPart
from windlass.model.records import ExperimentRecord, TrialRecord


class NamedLines(NamedTuple):
    """Log parts from one trial, and the names of all trials known so far."""

    parts: Sequence[LogPart]
    names: Sequence[str]


def read(
    transport: Transport, parent_id: int, query: dict[str, Any], *, tail: int | None = None
) -> Iterator[NamedLines]:
    """Yield the existing log parts of all descendants of a trial, one trial after another.

    With `tail`, yield only the last lines of all trials combined.
    """
    children = descendants(transport, parent_id)
    names = [name_of(child) for child in children]
    last: list[LogPart] = []
    for child in children:
        for parts in _pages(transport, child, query, tail=tail):
            if tail is None:
                yield NamedLines(parts, names)
            else:
                last += parts
    if tail is not None:
        last.sort(key=lambda part: part.time)
        yield NamedLines(last[-tail:] if tail else [], names)


def follow(
    transport: Transport, parent_id: int, experiment_id: int, query: dict[str, Any]
) -> Iterator[NamedLines]:
    """Yield log parts from all of a trial's descendants as they arrive, until all have ended."""
    following = _Family(transport, parent_id, experiment_id, query)
    try:
        for parts in following.parts():
            yield NamedLines(parts, following.names)
    finally:
        following.cut()


def descendants(transport: Transport, parent_id: int) -> list[TrialRecord]:
    """Return a trial's child trials and, recursively, their children."""
    records = []
    for child in list_trials(transport, parent_id=parent_id):
        records.append(child.record)
        records += descendants(transport, child.id)
    return records


def name_of(trial: TrialRecord) -> str:
    """Return a trial's name with its id, because several trials may share a name."""
    return f"{trial.name}-{trial.id}"


_News = ExperimentRecord | TrialRecord | list[LogPart] | int | BaseException


class _Family:
    """Follows the logs of all of a trial's descendants, each in its own thread."""

    def __init__(
        self, transport: Transport, parent_id: int, experiment_id: int, query: dict[str, Any]
    ) -> None:
        self._transport = transport
        self._query = query
        self._family = {parent_id}
        self._top = parent_id
        self._news: queue.SimpleQueue[_News] = queue.SimpleQueue()
        self._watching = ExperimentEvents(transport, experiment_id)
        self._reading: dict[int, TrialEvents] = {}
        self._left: set[int] = set()  # trials that are running, or whose log is still being read
        self._is_over = False
        self.names: list[str] = []

    def parts(self) -> Iterator[list[LogPart]]:
        self._left.add(self._top)
        self._start(self._watch, "watch")
        while self._left:
            news = self._news.get()
            if isinstance(news, BaseException):
                raise news
            if isinstance(news, TrialRecord):
                if self._is_new(news):
                    yield from self._begin(news)
            elif isinstance(news, ExperimentRecord):
                self._conclude()
            elif isinstance(news, int):
                self._left.discard(news)
            else:
                yield news

    def cut(self) -> None:
        self._watching.cut()
        for reader in self._reading.values():
            reader.cut()

    def _is_new(self, trial: TrialRecord) -> bool:
        """Return whether a trial is a descendant whose log is not being followed yet."""
        if trial.id == self._top:
            self._is_over = trial.state.is_final
        return trial.parent_id in self._family and trial.id not in self._family

    def _begin(self, trial: TrialRecord) -> Iterator[list[LogPart]]:
        """Start following a child trial's log. If the trial has ended, yield its log right away."""
        self._family.add(trial.id)
        self.names.append(name_of(trial))
        if trial.state.is_final:
            yield from _pages(self._transport, trial, self._query)
            return
        self._left.add(trial.id)
        following = TrialEvents(self._transport, trial_id=trial.id, query=self._query)
        self._reading[trial.id] = following
        self._start(lambda: self._read(trial, following), str(trial.id))

    def _conclude(self) -> None:
        """Mark the generator's trial as done if it has ended.

        When this method is called, all earlier events have been handled.
        """
        if self._is_over:
            self._left.discard(self._top)

    def _watch(self) -> None:
        for news in self._watching:
            if isinstance(news, (TrialRecord, ExperimentRecord)):
                self._news.put(news)

    def _read(self, trial: TrialRecord, following: TrialEvents) -> None:
        for news in following:
            if isinstance(news, TrialRecord):
                trial = news
            elif isinstance(news, LogPage):
                self._news.put([_renamed(part, trial) for part in news.items])
        self._news.put(trial.id)

    def _start(self, run: Any, name: str) -> None:
        def work() -> None:
            try:
                run()
            except BaseException as error:  # noqa: BLE001 -- raised in the thread that consumes the lines
                self._news.put(error)

        threading.Thread(target=work, name=f"windlass-logs-{name}", daemon=True).start()


def _pages(
    transport: Transport, child: TrialRecord, query: dict[str, Any], *, tail: int | None = None
) -> Iterator[list[LogPart]]:
    for parts in pages(transport, child.id, query, tail=tail):
        yield [_renamed(part, child) for part in parts]


def _renamed(part: LogPart, trial: TrialRecord) -> LogPart:
    """Return a log part with the trial's name in place of the role.

    If the trial has several replicas, the role's name follows the trial's name.
    """
    if has_several(trial):
        return msgspec.structs.replace(part, role=f"{name_of(trial)}-{part.role}")
    return msgspec.structs.replace(part, role=trial.name, index=trial.id)


def pieces(
    transport: Transport,
    parent: TrialRecord,
    query: dict[str, Any],
    *,
    tail: int | None = None,
    follows: bool = False,
) -> Iterator[NamedLines]:
    """Yield log parts of all trials that a generator added.

    Because each line shows its trial in place of its role, the filters by role, index and attempt
    do not apply.
    """
    query = {**query, "role": None, "index": None, "attempt": None}
    if follows and tail is None:
        return follow(transport, parent.id, parent.experiment_id, query)
    return read(transport, parent.id, query, tail=tail)


def log_parts(
    transport: Transport,
    parent: TrialRecord,
    query: dict[str, Any],
    *,
    head: int | None = None,
    tail: int | None = None,
    follow: bool = False,
) -> Iterator[Sequence[LogPart]]:
    """Yield log parts of all trials that a generator added, without the trials' names.

    With `head`, stop after that many lines.
    """
    pages = (piece.parts for piece in pieces(transport, parent, query, tail=tail, follows=follow))
    return pages if head is None else first_lines(pages, head)
