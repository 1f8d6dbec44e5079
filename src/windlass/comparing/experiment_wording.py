"""What differs between two experiments, told to people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from windlass.comparing import wording
from windlass.comparing.experiments import (
    ExperimentDiff,
    ExperimentSide,
    MetricSpread,
    Spread,
    Tried,
)
from windlass.comparing.wording import Line, Piece
from windlass.model.text import clean, shorten, width_of

_MOST_VALUES = 6


def text_of(diff: ExperimentDiff, *, code: bool = True) -> str:
    """The whole of it as plain text."""
    return wording.plain(lines_of(diff, code=code))


def lines_of(
    diff: ExperimentDiff, *, code: bool = True, width: int | None = None
) -> Iterator[Line]:
    """What differs between two experiments. `code` has the lines of files told, too."""
    names = str(diff.before.id), str(diff.after.id)
    for side in (diff.before, diff.after):
        yield _heading(side)
    if diff.newest is not None:
        ids = f"{diff.newest.before.id} and {diff.newest.after.id}"
        told = f"Code, environment and resources are those of the newest trials, {ids}."
        yield [Piece(told, "dim")]
    if diff.is_same:
        yield ()
        yield [Piece("Nothing differs: same configuration, parameters, code and metrics.")]
    yield from wording.section("Names and labels", wording.changes(diff.about, width))
    yield from wording.section("Configuration", wording.changes(diff.config, width))
    yield from wording.section("Parameters tried", _tried(diff.parameters, width))
    if diff.newest is not None:
        newest = diff.newest
        notes = ([Piece(clean(note))] for note in newest.notes)
        yield from wording.section("Notes", notes)
        yield from wording.section(wording.code_title(newest.code), wording.files(newest.code))
        yield from wording.section("Git", wording.changes(newest.git, width))
        yield from wording.section("Environment", wording.changes(newest.environment, width))
        yield from wording.section("Packages", wording.changes(newest.packages, width))
        rules = wording.changes(newest.settings, width)
        yield from wording.section("Resources and rules", rules)
    yield from wording.section("Metrics (the last values)", _metrics(diff.metrics, names))
    yield from wording.section("Trials", wording.changes(diff.states, width))
    if code and diff.newest is not None:
        yield from wording.code_lines(diff.newest.code)


def _heading(side: ExperimentSide) -> Line:
    trials = f"{side.trials} trial" + ("" if side.trials == 1 else "s")
    trees = f", {side.trees} different versions of the code" if side.trees > 1 else ""
    title = Piece(f"Experiment {side.id}", "head")
    return [title, Piece(f"  {clean(side.name)}  {side.state}  {trials}{trees}")]


def _tried(found: Sequence[Tried], width: int | None) -> Iterator[Line]:
    room = max((width_of(clean(each.name)) for each in found), default=0)
    space = max((width or 200) - room - 6, 24)
    blank = "" if all(each.before and each.after for each in found) else "  "
    for each in found:
        name = clean(each.name)
        padded = Piece(name + " " * (room - width_of(name) + 2))
        before, after = shorten(_few(each.before), space), shorten(_few(each.after), space)
        if not each.before:
            yield [Piece("+ ", "added"), padded, Piece(after, "added")]
        elif not each.after:
            yield [Piece("- ", "removed"), padded, Piece(before, "removed")]
        elif width_of(before) + width_of(after) + 3 <= space:
            values = [Piece(before, "removed"), Piece(" → ", "dim"), Piece(after, "added")]
            yield [Piece(blank), padded, *values]
        else:
            yield [Piece(blank), padded, Piece(before, "removed")]
            yield [Piece(blank + " " * room), Piece("→ ", "dim"), Piece(after, "added")]


def _few(values: Sequence[Any]) -> str:
    """Some values: all of a few; of many numbers, from where to where."""
    if len(values) <= _MOST_VALUES:
        return clean(", ".join(v if isinstance(v, str) else repr(v) for v in values))
    numbers = [v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)]
    if len(numbers) == len(values):
        return f"{min(numbers)!r} to {max(numbers)!r} ({len(values)} values)"
    some = ", ".join(v if isinstance(v, str) else repr(v) for v in values[:_MOST_VALUES])
    return clean(f"{some} and {len(values) - _MOST_VALUES} more")


def _metrics(found: Sequence[MetricSpread], names: tuple[str, str]) -> Iterator[Line]:
    if not found:
        return
    rows = [("", *names)]
    for metric in found:
        name = clean(metric.name)
        rows.append((f"{name} least", _least(metric.before), _least(metric.after)))
        rows.append((f"{name} greatest", _greatest(metric.before), _greatest(metric.after)))
    widths = [max(width_of(row[i]) for row in rows) for i in range(3)]
    for position, row in enumerate(rows):
        first = row[0] + " " * (widths[0] - width_of(row[0]))
        text = f"{first}  {row[1].rjust(widths[1])}  {row[2].rjust(widths[2])}"
        yield [Piece(text, "dim" if position == 0 else "")]


def _least(spread: Spread | None) -> str:
    return "-" if spread is None else f"{wording.number(spread.min)} (trial {spread.min_id})"


def _greatest(spread: Spread | None) -> str:
    return "-" if spread is None else f"{wording.number(spread.max)} (trial {spread.max_id})"
