"""Prints a table of a trial's replicas, with their states and causes of failure."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.cli.output.table import Column, Row
    from windlass.client.resources.trial.replicas import Replica
    from windlass.model.records import Attempt, TrialRecord

_COLOURS = {"Running": "cyan", "Succeeded": "green", "Failed": "red"}


def print_replicas(record: TrialRecord) -> None:
    """Print each replica's newest attempt or, for a single replica, all attempts.

    If there is only one attempt, print nothing, because the trial's page shows its state.
    """
    from windlass.cli.output.table import Column, fits_terminal, print_table
    from windlass.cli.output.text import paint
    from windlass.client.resources.trial.replicas import has_several, replicas_of

    is_alone = not has_several(record)
    if is_alone and len(record.attempts) <= 1:
        return
    shown: Sequence[Attempt | Replica] = record.attempts if is_alone else replicas_of(record)
    print()
    print(paint("Attempts" if is_alone else "Replicas", bold=True))
    columns = [
        Column("  #" if is_alone else "  REPLICA"), Column("ATTEMPT", is_number=True),
        Column("PHASE"), Column("EXIT", is_number=True), Column("TOOK", is_number=True),
        Column("ADDRESS"), Column("NODE"), Column("POD"), Column("WHY", shrinks=True),
    ]  # fmt: skip
    now = time.time()
    rows = [_row(record, attempt, now, is_alone=is_alone) for attempt in shown]
    columns, rows = _without_empty(columns, rows, keep=("WHY",) if is_alone else ())
    in_pods = [attempt for attempt in shown if attempt.pod is not None]
    if not in_pods or fits_terminal(columns, rows):
        print_table(columns, rows)
        return
    print_table(*_without(("ADDRESS", "NODE", "POD"), columns, rows))
    _print_pods(in_pods, is_alone=is_alone)


def _print_pods(attempts: Sequence[Attempt | Replica], *, is_alone: bool) -> None:
    """Print pod, node and address on separate lines, to avoid cutting long names."""
    from windlass.cli.output.text import clean, paint

    print()
    print(paint("Pods", bold=True))
    width = max(len(_name(attempt, is_alone=is_alone)) for attempt in attempts)
    for attempt in attempts:
        name = _name(attempt, is_alone=is_alone)
        pod = attempt.pod.name if attempt.pod is not None else ""
        for label, value in (("pod", pod), ("node", attempt.node), ("at", attempt.address)):
            if value:
                print(f"{name.ljust(width)}  {paint(label.ljust(4), dim=True)}  {clean(value)}")
                name = ""


def describe_cause(record: TrialRecord, attempt: Attempt | Replica) -> str:
    """Describe why an attempt ended, from its reason and message or its last output."""
    from windlass.cli.output.timeline import describe_end

    reason = "" if _is_stopped(attempt) else attempt.reason
    reported = ": ".join(part for part in (reason, attempt.message) if part)
    if reported or attempt.phase != "Failed" or _is_stopped(attempt):
        return reported
    cause = record.cause
    is_cause = cause is not None and (cause.role, cause.index, cause.attempt) == (
        attempt.role, attempt.index, attempt.attempt,
    )  # fmt: skip
    if record.error is not None and (is_cause or len(record.attempts) == 1):
        return f"{record.error.type}: {record.error.message}"
    lines = [line for line in cause.lines if line.strip()] if cause and is_cause else []
    return lines[-1] if lines else describe_end(attempt).removeprefix("failed with ")


def _seconds(moment: datetime | float | None) -> float | None:
    """Convert the time in a `Replica` or an `Attempt` to seconds since the epoch."""
    return moment.timestamp() if isinstance(moment, datetime) else moment


def _row(record: TrialRecord, attempt: Attempt | Replica, now: float, *, is_alone: bool) -> Row:
    from windlass.cli.output.table import Cell
    from windlass.cli.output.text import clean
    from windlass.model.text.quantities import format_duration

    began, ended = _seconds(attempt.started), _seconds(attempt.ended)
    took = "" if began is None else format_duration((now if ended is None else ended) - began)
    return [
        _name(attempt, is_alone=is_alone),
        "" if is_alone else str(attempt.attempt or ""),
        Cell("Stopped", "dim")
        if _is_stopped(attempt)
        else Cell(attempt.phase, _COLOURS.get(attempt.phase, "")),
        "" if attempt.exit_code is None else str(attempt.exit_code),
        took,
        attempt.address,
        clean(attempt.node) if attempt.pod is not None else "",
        "" if attempt.pod is None else clean(attempt.pod.name),
        clean(describe_cause(record, attempt)),
    ]


def _name(attempt: Attempt | Replica, *, is_alone: bool) -> str:
    return f"  {attempt.attempt}" if is_alone else f"  {attempt.role}-{attempt.index}"


def _is_stopped(attempt: Attempt | Replica) -> bool:
    """Return whether Windlass stopped the attempt, whatever its exit code."""
    from windlass.model.status import GIVEN_UP

    return attempt.reason in ("Stopped", GIVEN_UP)


def _without_empty(
    columns: Sequence[Column], rows: Sequence[Row], *, keep: Sequence[str]
) -> tuple[list[Column], list[Row]]:
    """Remove the columns of a table that have no value in any row, except the columns in `keep`."""
    empty = [
        column.head
        for i, column in enumerate(columns)
        if column.head not in keep and all(row[i] in ("", ("", "")) for row in rows)
    ]
    return _without(empty, columns, rows)


def _without(
    heads: Sequence[str], columns: Sequence[Column], rows: Sequence[Row]
) -> tuple[list[Column], list[Row]]:
    """Remove the columns that have these headings from a table."""
    left = [i for i, column in enumerate(columns) if column.head not in heads]
    return [columns[i] for i in left], [[row[i] for i in left] for row in rows]
