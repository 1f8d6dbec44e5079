"""The timeline of a trial: what happened to it, in order, as a person would tell it.

Pure: from what is recorded to moments, and from moments to lines. What many replicas did
alike is told once, and what only led to something else is left out.
"""

from __future__ import annotations

import re
import signal
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from windlass.client.outcomes import how_it_ended
from windlass.client.replicas import Replica, has_several
from windlass.model.job import RestartScope
from windlass.model.quantities import format_duration
from windlass.model.records import Attempt, TrialRecord, TrialState
from windlass.model.status import GIVEN_UP, ConditionType, Event, EventKind

_LONGEST = 60  # moments that are drawn; of more, the middle is left out
_FIRST = 12  # of those, before what is left out
_NOTEWORTHY_WAIT = 0.5  # seconds in the queue that are worth a line
_SHORTEST_LINE = 24
_NAMED = re.compile(r"(?:starting |stopping )?([a-z0-9-]+)-(\d+) \(?attempt (\d+)\b\)?")
_ATTEMPT = re.compile(r" in attempt (\d+)")  # of a replica alone, whose name is not told
_RESTART = re.compile(r"; (restart \d+ of \d+)$")
_ENDS = {
    "Completed", "ReplicaFailed", "BackoffLimitExceeded", "DeadlineExceeded", "Stopped",
    "GeneratorFailed", "GeneratorLost", "TrialFailed",
}  # fmt: skip


class Mark(Enum):
    """What kind of moment it is: its sign, its sign in plain ASCII, and its colour."""

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
        """What is drawn for it."""
        return str(self.value[1 if plain else 0])


class Moment(NamedTuple):
    """Something that happened, and when; without a time, it is happening now."""

    time: float | None
    mark: Mark
    text: str


class Line(NamedTuple):
    """A line of the drawing, in its parts: each is painted in its own way."""

    when: str
    sign: str
    text: str
    mark: Mark
    goes_on: bool = False  # with the text of the line above


def draw(moments: Sequence[Moment], *, width: int | None = None, plain: bool = False) -> list[Line]:
    """The lines of a timeline: the hour it began, and from there how long it took.

    >>> moments = [Moment(0.0, Mark.CREATED, "created"), Moment(1.5, Mark.DONE, "succeeded")]
    >>> for line in draw(moments)[1:]:
    ...     print(line.when, line.sign, line.text)
    +1.5s    ✓ succeeded
    """
    whens = _whens(moments)
    column = max(map(len, whens), default=0)
    room = max(width - column - 4, _SHORTEST_LINE) if width is not None else None
    lines = []
    for place, (when, moment) in enumerate(zip(whens, moments, strict=True)):
        text = moment.text.replace("…", "...") if plain else moment.text
        told = textwrap.wrap(text, room) if room else [text]
        sign = moment.mark.sign(plain=plain)
        lines.append(Line(when.ljust(column), sign, told[0] if told else "", moment.mark))
        is_last = place == len(moments) - 1
        below = " " if is_last else Mark.NOTE.sign(plain=plain)
        lines += [Line(" " * column, below, each, moment.mark, True) for each in told[1:]]
    return lines


def timeline_of(record: TrialRecord, events: Sequence[Event]) -> list[Moment]:
    """What happened to a trial, oldest first."""
    told = _Telling(record, events)
    moments = [moment for moment, _ in _folded(told.happenings())]
    if not record.state.is_final:
        moments.append(Moment(None, Mark.NOW, _at_present(record)))
    if len(moments) <= _LONGEST:
        return moments
    last = moments[_FIRST - _LONGEST + 1 :]
    left_out = len(moments) - _FIRST - len(last)
    gap = f"{left_out} more; all of them: windlass show {record.id} --json"
    return [*moments[:_FIRST], Moment(last[0].time, Mark.GAP, gap), *last]


def describe_end(attempt: Attempt | Replica) -> str:
    """How an attempt ended, to follow its name.

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
    """One attempt of one replica."""

    role: str
    number: int
    attempt: int


class _Happening(NamedTuple):
    """Something before it is told: what is alike and next to each other is told as one."""

    time: float
    order: int  # among what happened at the same time
    mark: Mark
    what: str  # the whole sentence, or what follows the names of replicas
    who: _Key | None = None


class _Telling:
    """What is worth telling of one trial."""

    def __init__(self, record: TrialRecord, events: Sequence[Event]) -> None:
        self._record = record
        self._events = events
        self._attempts = {_Key(a.role, a.index, a.attempt): a for a in record.attempts}
        self._is_alone = not has_several(record)

    def happenings(self) -> list[_Happening]:
        """Everything worth telling, in order of time."""
        found = [_Happening(self._record.created, 0, Mark.CREATED, "created")]
        found += self._from_queue()
        found += self._from_attempts()
        for event in self._events:
            found += self._from_event(event)
        return sorted(found, key=lambda each: (each.time, each.order))

    def _from_queue(self) -> Iterator[_Happening]:
        """It waited, and is waiting no more; while it waits, its present state says so."""
        queued = next((c for c in self._record.conditions if c.type is ConditionType.QUEUED), None)
        if queued is None or queued.status or queued.reason != "Admitted":
            return
        since = [event.time for event in self._events if event.reason == "Resumed"]
        begin = max([self._record.created, *(t for t in since if t <= queued.last_transition)])
        waited = queued.last_transition - begin
        if waited >= _NOTEWORTHY_WAIT:
            what = f"had room, after {format_duration(waited)} in the queue"
            yield _Happening(queued.last_transition, 1, Mark.NOTE, what)

    def _from_attempts(self) -> Iterator[_Happening]:
        for key, attempt in self._attempts.items():
            who = None if self._is_alone else key
            if attempt.started is not None:
                what = "running" + (_which_attempts([key]) if self._is_alone else "")
                yield _Happening(attempt.started, 2, Mark.STARTED, what, who)
            if attempt.ended is None or self._is_told_by_the_end(key, attempt):
                continue
            mark = Mark.DONE if attempt.phase == "Succeeded" else Mark.FAILED
            if attempt.reason in ("Stopped", GIVEN_UP):
                mark = Mark.NOTE
            yield _Happening(attempt.ended, 3, mark, describe_end(attempt), who)

    def _is_told_by_the_end(self, key: _Key, attempt: Attempt) -> bool:
        """Whether the end of the trial says the same."""
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

    def _from_event(self, event: Event) -> Iterator[_Happening]:
        match event.reason:
            case "ReplicaStarting" | "ReplicaStopping":
                yield from self._from_order(event)
            case "ReplicaRestarting":
                yield _Happening(event.time, 4, Mark.RESTART, self._restart(event.message))
            case "Suspended":
                yield _Happening(event.time, 4, Mark.SUSPENDED, event.message or "suspended")
            case "Resumed":
                yield _Happening(event.time, 0, Mark.RESUMED, event.message or "resumed")
            case "Resized":
                yield _Happening(event.time, 4, Mark.RESTART, event.message)
            case "Scaled":
                yield _Happening(event.time, 4, Mark.SCALED, f"scaled: {event.message}")
            case reason if reason in _ENDS:
                yield _Happening(event.time, 6, *self._end(event))
            case _:
                is_bad = event.kind is EventKind.WARNING
                what = event.message or event.reason
                yield _Happening(event.time, 4, Mark.WARNING if is_bad else Mark.NOTE, what)

    def _from_order(self, event: Event) -> Iterator[_Happening]:
        """A start or a stop that was asked for, if nothing has come of it yet."""
        named = _NAMED.match(event.message)
        if named is None:
            yield _Happening(event.time, 1, Mark.NOTE, event.message)
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
        yield _Happening(event.time, 1, Mark.NOTE, what, who)

    def _restart(self, message: str) -> str:
        """Which restart it is; of what, unless the end of the attempt has just been told."""
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
        """The attempt that an event speaks of."""
        if named := _NAMED.match(message):
            return _Key(named[1], int(named[2]), int(named[3]))
        if not self._is_alone or not self._attempts:
            return None
        told = _ATTEMPT.search(message)
        return min(self._attempts)._replace(attempt=int(told[1]) if told else 1)

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


def _folded(happenings: Iterable[_Happening]) -> Iterator[tuple[Moment, int]]:
    """What replicas did alike and at a time, told as one; and how many of them did."""
    group: list[_Happening] = []
    for each in happenings:
        if group and not _is_alike(group[-1], each):
            yield _told(group), len(group)
            group = []
        group.append(each)
    if group:
        yield _told(group), len(group)


def _is_alike(one: _Happening, other: _Happening) -> bool:
    is_told_by_name = one.who is not None and other.who is not None
    return is_told_by_name and (one.mark, one.what) == (other.mark, other.what)


def _told(group: Sequence[_Happening]) -> Moment:
    first, last = group[0], group[-1]
    keys = [each.who for each in group if each.who]
    if not keys:
        return Moment(first.time, first.mark, first.what)
    names = spell_names((key.role, key.number) for key in keys)
    if first.mark is Mark.STARTED:  # when the last of them runs, all do
        return Moment(last.time, first.mark, f"{first.what}: {names}{_which_attempts(keys)}")
    return Moment(first.time, first.mark, f"{names} {first.what}")


def _which_attempts(keys: Iterable[_Key]) -> str:
    """Which attempts of replicas they are, unless each is its first."""
    numbers = sorted({key.attempt for key in keys})
    if numbers == [1]:
        return ""
    listed = " and ".join(map(str, numbers)) if len(numbers) < 3 else f"up to {numbers[-1]}"
    return f", attempt{'' if len(numbers) == 1 else 's'} {listed}"


def spell_names(replicas: Iterable[tuple[str, int]]) -> str:
    """Replicas by their names; those in a row from the first to the last.

    >>> spell_names([("worker", 2), ("chief", 0), ("worker", 0), ("worker", 1)])
    '4 replicas (chief-0, worker-0 … worker-2)'
    >>> spell_names([("worker", 1)])
    'worker-1'
    """
    known = sorted(set(replicas))
    names = []
    for start, end in _runs(known):
        role, first, last = known[start][0], known[start][1], known[end][1]
        if end - start < 2:
            names += [f"{role}-{index}" for index in range(first, last + 1)]
        else:
            names.append(f"{role}-{first} … {role}-{last}")
    shown = ", ".join(names if len(names) <= 6 else [*names[:5], f"{names[-1]} and others"])
    return shown if len(known) == 1 else f"{len(known)} replicas ({shown})"


def _runs(known: Sequence[tuple[str, int]]) -> Iterator[tuple[int, int]]:
    """Where each row of neighbours begins and ends."""
    start = 0
    for place in range(1, len(known) + 1):
        before = known[place - 1]
        if place == len(known) or known[place] != (before[0], before[1] + 1):
            yield start, place - 1
            start = place


def _whens(moments: Sequence[Moment]) -> list[str]:
    """When each was: the hour, then how long after; nothing where it is as the one before."""
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
