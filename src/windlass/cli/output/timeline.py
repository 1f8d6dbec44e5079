"""Builds and draws a trial's timeline, which lists its events in order.

Pure functions convert records to timeline events, and timeline events to lines. Similar events from
several replicas are merged, and intermediate steps are omitted.
"""

from __future__ import annotations

import re
import signal
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from windlass.client.resources.trial.outcome import how_it_ended
from windlass.client.resources.trial.replicas import Replica, has_several
from windlass.model.job import RestartScope
from windlass.model.records import Attempt, TrialRecord, TrialState
from windlass.model.status import GIVEN_UP, ConditionType, Event, EventKind
from windlass.model.text.quantities import format_duration

_LONGEST = 60  # show at most this many events and omit the middle
_FIRST = 12  # the number of events before the omitted middle
_NOTEWORTHY_WAIT = 0.5  # seconds; shorter waits in the queue are not shown
_SHORTEST_LINE = 24
_NAMED = re.compile(r"(?:starting |stopping )?([a-z0-9-]+)-(\d+) \(?attempt (\d+)\b\)?")
_ATTEMPT = re.compile(r" in attempt (\d+)")  # messages about a trial's only replica do not name it
_RESTART = re.compile(r"; (restart \d+ of \d+)$")
_ENDS = {
    "Completed", "ReplicaFailed", "RepeatedFailure", "BackoffLimitExceeded", "DeadlineExceeded",
    "Stopped", "GeneratorFailed", "GeneratorLost", "TrialFailed",
}  # fmt: skip


class Mark(Enum):
    """The kind of a timeline event, with its sign, ASCII sign and colour."""

    CREATED = ("○", "o", "")
    NOTE = ("│", "|", "")
    STARTED = ("●", "*", "cyan")
    DONE = ("✓", "+", "green")
    FAILED = ("✗", "x", "red")
    RESTART = ("↻", "@", "yellow")
    WARNING = ("!", "!", "yellow")
    SUSPENDED = ("‖", "=", "yellow")
    RESUMED = ("▶", ">", "cyan")
    SCALED = ("↕", "^", "cyan")
    ENDED = ("■", "#", "magenta")
    GAP = ("⋮", ":", "")
    NOW = ("…", ".", "")

    @property
    def colour(self) -> str:
        return str(self.value[2])

    def sign(self, *, plain: bool) -> str:
        """Return the character that marks the event, in ASCII if `plain`."""
        return str(self.value[1 if plain else 0])


class TimelineEvent(NamedTuple):
    """A timeline event with its time. A time of None means now."""

    time: float | None
    mark: Mark
    text: str


class TimelineLine(NamedTuple):
    """A timeline line, whose parts have different styles."""

    when: str
    sign: str
    text: str
    mark: Mark
    goes_on: bool = False  # whether it continues the text of the previous line


def draw(
    moments: Sequence[TimelineEvent], *, width: int | None = None, plain: bool = False
) -> list[TimelineLine]:
    """Draw a timeline. The first line shows the start time, and all other times are relative to it.

    >>> moments = [
    ...     TimelineEvent(0.0, Mark.CREATED, "created"),
    ...     TimelineEvent(1.5, Mark.DONE, "succeeded"),
    ... ]
    >>> for line in draw(moments)[1:]:
    ...     print(line.when, line.sign, line.text)
    +1.5s    ✓ succeeded
    """
    whens = _whens(moments)
    column = max(map(len, whens), default=0)
    text_width = max(width - column - 4, _SHORTEST_LINE) if width is not None else None
    lines = []
    for position, (when, moment) in enumerate(zip(whens, moments, strict=True)):
        text = moment.text.replace("…", "...") if plain else moment.text
        wrapped = textwrap.wrap(text, text_width) if text_width else [text]
        sign = moment.mark.sign(plain=plain)
        lines.append(
            TimelineLine(when.ljust(column), sign, wrapped[0] if wrapped else "", moment.mark)
        )
        is_last = position == len(moments) - 1
        below = " " if is_last else Mark.NOTE.sign(plain=plain)
        lines += [
            TimelineLine(" " * column, below, more, moment.mark, True) for more in wrapped[1:]
        ]
    return lines


def build_timeline(record: TrialRecord, events: Sequence[Event]) -> list[TimelineEvent]:
    """Build a trial's timeline, oldest event first."""
    history = _History(record, events)
    moments = [moment for moment, _ in _merge_similar(history.entries())]
    if not record.state.is_final:
        moments.append(TimelineEvent(None, Mark.NOW, _at_present(record)))
    if len(moments) <= _LONGEST:
        return moments
    last = moments[_FIRST - _LONGEST + 1 :]
    left_out = len(moments) - _FIRST - len(last)
    gap = f"{left_out} more; all of them: windlass show {record.id} --json"
    return [*moments[:_FIRST], TimelineEvent(last[0].time, Mark.GAP, gap), *last]


def describe_end(attempt: Attempt | Replica) -> str:
    """Describe how an attempt ended, as text to put after the replica's name.

    >>> describe_end(
    ...     Attempt(role="main", index=0, attempt=1, phase="Failed", exit_code=137, reason="Signal")
    ... )
    'was killed by SIGKILL (exit code 137)'
    """
    if attempt.phase == "Succeeded":
        return "succeeded"
    code, why = attempt.exit_code, f": {attempt.message}" if attempt.message else ""
    if attempt.reason == "Stopped":
        never_began = attempt.started is None and attempt.message
        return attempt.message if never_began else "stopped"
    if attempt.reason == GIVEN_UP:
        return f"was given up{why}"
    if attempt.reason == "StartFailed":
        return f"could not start{why}"
    if attempt.reason == "DeadlineExceeded":
        return "ran out of time"
    if attempt.reason == "Signal" and code is not None and (name := _signal_name(code)):
        return f"was killed by {name} (exit code {code}){why}"
    if code is not None:
        return f"failed with exit code {code}{why}"
    return f"was lost{why}" if attempt.reason in ("Lost", "") else f"failed: {attempt.reason}{why}"


class _Key(NamedTuple):
    """Identifies one attempt of one replica."""

    role: str
    number: int
    attempt: int


class _HistoryEntry(NamedTuple):
    """A history entry. Adjacent similar entries are merged into one timeline event."""

    time: float
    order: int  # orders entries with the same time
    mark: Mark
    what: str  # the whole text, or the text that follows the replicas' names
    who: _Key | None = None


class _History:
    """Builds the history entries of one trial."""

    def __init__(self, record: TrialRecord, events: Sequence[Event]) -> None:
        self._record = record
        self._events = events
        self._attempts = {_Key(a.role, a.index, a.attempt): a for a in record.attempts}
        self._is_alone = not has_several(record)

    def entries(self) -> list[_HistoryEntry]:
        """Return all entries in order of time."""
        entries = [_HistoryEntry(self._record.created, 0, Mark.CREATED, "created")]
        entries += self._from_queue()
        entries += self._from_attempts()
        for event in self._events:
            entries += self._from_event(event)
        return sorted(entries, key=lambda entry: (entry.time, entry.order))

    def _from_queue(self) -> Iterator[_HistoryEntry]:
        """Yield an entry if the trial waited in the queue before it got capacity.

        If the trial is still waiting, its current state shows the wait instead.
        """
        queued = next((c for c in self._record.conditions if c.type is ConditionType.QUEUED), None)
        if queued is None or queued.status or queued.reason != "Admitted":
            return
        since = [event.time for event in self._events if event.reason == "Resumed"]
        begin = max([self._record.created, *(t for t in since if t <= queued.last_transition)])
        waited = queued.last_transition - begin
        if waited >= _NOTEWORTHY_WAIT:
            what = f"got capacity, after {format_duration(waited)} in the queue"
            yield _HistoryEntry(queued.last_transition, 1, Mark.NOTE, what)

    def _from_attempts(self) -> Iterator[_HistoryEntry]:
        for key, attempt in self._attempts.items():
            who = None if self._is_alone else key
            if attempt.started is not None:
                what = "running" + (_which_attempts([key]) if self._is_alone else "")
                yield _HistoryEntry(attempt.started, 2, Mark.STARTED, what, who)
            if attempt.ended is None or self._is_covered_by_trial_end(key, attempt):
                continue
            mark = Mark.DONE if attempt.phase == "Succeeded" else Mark.FAILED
            if attempt.reason in ("Stopped", GIVEN_UP):
                mark = Mark.NOTE
            yield _HistoryEntry(attempt.ended, 3, mark, describe_end(attempt), who)

    def _is_covered_by_trial_end(self, key: _Key, attempt: Attempt) -> bool:
        """Return whether the history's final entry also describes the end of this attempt."""
        record = self._record
        if not record.state.is_final:
            return False
        if self._is_alone:
            says_why = attempt.reason == "Stopped" and ": " in describe_end(attempt)
            return key == max(self._attempts) and not says_why
        cause = record.cause
        if record.state is not TrialState.FAILED or cause is None:
            return False
        return key == (cause.role, cause.index, cause.attempt) and attempt.phase == "Failed"

    def _from_event(self, event: Event) -> Iterator[_HistoryEntry]:
        match event.reason:
            case "ReplicaStarting" | "ReplicaStopping":
                yield from self._from_order(event)
            case "ReplicaRestarting":
                yield _HistoryEntry(event.time, 4, Mark.RESTART, self._restart(event.message))
            case "Suspended":
                yield _HistoryEntry(event.time, 4, Mark.SUSPENDED, event.message or "suspended")
            case "Resumed":
                yield _HistoryEntry(event.time, 0, Mark.RESUMED, event.message or "resumed")
            case "Resized":
                yield _HistoryEntry(event.time, 4, Mark.RESTART, event.message)
            case "Scaled":
                yield _HistoryEntry(event.time, 4, Mark.SCALED, f"scaled: {event.message}")
            case reason if reason in _ENDS:
                ended = event.time if self._record.ended is None else self._record.ended
                yield _HistoryEntry(ended, 6, *self._end(event))
            case _:
                is_bad = event.kind is EventKind.WARNING
                what = event.message or event.reason
                yield _HistoryEntry(event.time, 4, Mark.WARNING if is_bad else Mark.NOTE, what)

    def _from_order(self, event: Event) -> Iterator[_HistoryEntry]:
        """Yield an entry for a requested start or stop that has not happened yet.

        An event that names no attempt becomes an entry with the event's message.
        """
        named = _NAMED.match(event.message)
        if named is None:
            yield _HistoryEntry(event.time, 1, Mark.NOTE, event.message)
            return
        key = _Key(named[1], int(named[2]), int(named[3]))
        attempt = self._attempts.get(key)
        who = None if self._is_alone else key
        starts = event.reason == "ReplicaStarting"
        if attempt is not None and (attempt.started if starts else attempt.ended) is not None:
            return
        if self._record.state.is_final or (attempt is not None and attempt.ended is not None):
            return
        what = "starting" if starts else "stopping" + event.message[named.end() :]
        yield _HistoryEntry(event.time, 1, Mark.NOTE, what, who)

    def _restart(self, message: str) -> str:
        """Describe a restart.

        Omit the replica's name if the previous entry already names this replica.
        """
        counted, key = _RESTART.search(message), self._subject(message)
        ended = self._attempts.get(key) if key else None
        if counted is None or key is None or ended is None or ended.ended is None:
            return message
        if self._is_alone:
            return counted[1]
        is_all = self._record.spec.restart_scope is RestartScope.JOB
        who = "all replicas" if is_all else f"{key.role}-{key.number}"
        return f"{counted[1]}: {who}"

    def _subject(self, message: str) -> _Key | None:
        """Return the attempt that an event's message names, or None."""
        if named := _NAMED.match(message):
            return _Key(named[1], int(named[2]), int(named[3]))
        if not self._is_alone or not self._attempts:
            return None
        match = _ATTEMPT.search(message)
        return min(self._attempts)._replace(attempt=int(match[1]) if match else 1)

    def _end(self, event: Event) -> tuple[Mark, str]:
        record = self._record
        if event.reason == "Completed":
            return Mark.DONE, "succeeded"
        if event.reason == "Stopped":
            is_plain = event.message in ("", "stopped")
            return Mark.ENDED, "stopped" if is_plain else f"stopped: {event.message}"
        if event.reason == "DeadlineExceeded":
            return Mark.FAILED, f"failed: {how_it_ended(record)}"
        return Mark.FAILED, f"failed: {event.message}" if event.message else "failed"


def _merge_similar(entries: Iterable[_HistoryEntry]) -> Iterator[tuple[TimelineEvent, int]]:
    """Merge adjacent entries that differ only in their replica.

    Yield each timeline event with the number of merged entries.
    """
    group: list[_HistoryEntry] = []
    for entry in entries:
        if group and not _is_alike(group[-1], entry):
            yield _merge(group), len(group)
            group = []
        group.append(entry)
    if group:
        yield _merge(group), len(group)


def _is_alike(one: _HistoryEntry, other: _HistoryEntry) -> bool:
    have_names = one.who is not None and other.who is not None
    return have_names and (one.mark, one.what) == (other.mark, other.what)


def _merge(group: Sequence[_HistoryEntry]) -> TimelineEvent:
    first, last = group[0], group[-1]
    keys = [entry.who for entry in group if entry.who]
    if not keys:
        return TimelineEvent(first.time, first.mark, first.what)
    names = spell_names((key.role, key.number) for key in keys)
    if first.mark is Mark.STARTED:  # all replicas are running once the last one is
        return TimelineEvent(last.time, first.mark, f"{first.what}: {names}{_which_attempts(keys)}")
    return TimelineEvent(first.time, first.mark, f"{names} {first.what}")


def _which_attempts(keys: Iterable[_Key]) -> str:
    """Describe the numbers of attempts, or return "" if all of them are first attempts."""
    numbers = sorted({key.attempt for key in keys})
    if numbers == [1]:
        return ""
    listed = " and ".join(map(str, numbers)) if len(numbers) < 3 else f"up to {numbers[-1]}"
    return f", attempt{'' if len(numbers) == 1 else 's'} {listed}"


def spell_names(replicas: Iterable[tuple[str, int]]) -> str:
    """Format replicas' names, with consecutive indexes as a range.

    >>> spell_names([("worker", 2), ("chief", 0), ("worker", 0), ("worker", 1)])
    '4 replicas (chief-0, worker-0 … worker-2)'
    >>> spell_names([("worker", 1)])
    'worker-1'
    """
    ordered = sorted(set(replicas))
    names = []
    for start, end in _runs(ordered):
        role, first, last = ordered[start][0], ordered[start][1], ordered[end][1]
        if end - start < 2:
            names += [f"{role}-{index}" for index in range(first, last + 1)]
        else:
            names.append(f"{role}-{first} … {role}-{last}")
    shown = ", ".join(names if len(names) <= 6 else [*names[:5], f"{names[-1]} and others"])
    return shown if len(ordered) == 1 else f"{len(ordered)} replicas ({shown})"


def _runs(ordered: Sequence[tuple[str, int]]) -> Iterator[tuple[int, int]]:
    """Find runs of replicas with the same role and consecutive indexes.

    Yield the first and last list position of each run.
    """
    start = 0
    for position in range(1, len(ordered) + 1):
        before = ordered[position - 1]
        if position == len(ordered) or ordered[position] != (before[0], before[1] + 1):
            yield start, position - 1
            start = position


def _whens(moments: Sequence[TimelineEvent]) -> list[str]:
    """Format the times of timeline events.

    The first time is absolute, and all others are relative to it. A time equal to the one on the
    previous line becomes "".
    """
    if not moments:
        return []
    begin = moments[0].time or 0.0
    whens = [time.strftime("%H:%M:%S", time.localtime(begin))]
    before = whens[0]
    for moment in moments[1:]:
        when = "now" if moment.time is None else f"+{format_duration(moment.time - begin)}"
        whens.append("" if when == before else when)
        before = when
    return whens


def _at_present(record: TrialRecord) -> str:
    state = record.state.value.lower()
    return f"{state}: {record.message}" if record.message else state


def _signal_name(exit_code: int) -> str:
    try:
        return signal.Signals(exit_code - 128).name
    except ValueError:
        return ""
