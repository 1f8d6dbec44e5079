"""Formats the differences between two experiments as text with optional styles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from windlass.comparison import diff_text
from windlass.comparison.diff_text import DiffLine, Span
from windlass.comparison.experiments import (
    ExperimentDiff,
    ExperimentSide,
    MetricSpread,
    Spread,
    TriedParameter,
)
from windlass.model.text.display import clean, shorten, width_of

_MOST_VALUES = 6


def format_experiment_diff(diff: ExperimentDiff, *, code: bool = True) -> str:
    """Format a diff of two experiments as plain text."""
    return diff_text.plain(experiment_diff_lines(diff, code=code))


def experiment_diff_lines(
    diff: ExperimentDiff, *, code: bool = True, width: int | None = None
) -> Iterator[DiffLine]:
    """Yield the lines that show the differences between two experiments.

    With `code`, this includes the changed lines of files.
    """
    names = str(diff.before.id), str(diff.after.id)
    for side in (diff.before, diff.after):
        yield _heading(side)
    if diff.newest is not None:
        ids = f"{diff.newest.before.id} and {diff.newest.after.id}"
        note = f"Code, environment and resources are those of the newest trials, {ids}."
        yield [Span(note, "dim")]
    if diff.is_same:
        yield ()
        yield [Span("Nothing differs: same configuration, parameters, code and metrics.")]
    yield from diff_text.section("Names and labels", diff_text.changes(diff.about, width))
    yield from diff_text.section("Configuration", diff_text.changes(diff.config, width))
    yield from diff_text.section("Parameters tried", _tried(diff.parameters, width))
    if diff.newest is not None:
        newest = diff.newest
        notes = ([Span(clean(note))] for note in newest.notes)
        yield from diff_text.section("Notes", notes)
        yield from diff_text.section(
            diff_text.code_title(newest.code), diff_text.files(newest.code)
        )
        yield from diff_text.section("Git", diff_text.changes(newest.git, width))
        yield from diff_text.section("Environment", diff_text.changes(newest.environment, width))
        yield from diff_text.section("Packages", diff_text.changes(newest.packages, width))
        rules = diff_text.changes(newest.settings, width)
        yield from diff_text.section("Resources and rules", rules)
    yield from diff_text.section("Metrics (the last values)", _metrics(diff.metrics, names))
    yield from diff_text.section("Trials", diff_text.changes(diff.states, width))
    if code and diff.newest is not None:
        yield from diff_text.code_lines(diff.newest.code)


def _heading(side: ExperimentSide) -> DiffLine:
    trials = f"{side.trials} trial" + ("" if side.trials == 1 else "s")
    trees = f", {side.trees} different versions of the code" if side.trees > 1 else ""
    title = Span(f"Experiment {side.id}", "head")
    return [title, Span(f"  {clean(side.name)}  {side.state}  {trials}{trees}")]


def _tried(parameters: Sequence[TriedParameter], width: int | None) -> Iterator[DiffLine]:
    name_width = max((width_of(clean(parameter.name)) for parameter in parameters), default=0)
    space = max((width or 200) - name_width - 6, 24)
    blank = "" if all(parameter.before and parameter.after for parameter in parameters) else "  "
    for parameter in parameters:
        name = clean(parameter.name)
        padded = Span(name + " " * (name_width - width_of(name) + 2))
        before, after = (
            shorten(_few(parameter.before), space),
            shorten(_few(parameter.after), space),
        )
        if not parameter.before:
            yield [Span("+ ", "added"), padded, Span(after, "added")]
        elif not parameter.after:
            yield [Span("- ", "removed"), padded, Span(before, "removed")]
        elif width_of(before) + width_of(after) + 3 <= space:
            values = [Span(before, "removed"), Span(" → ", "dim"), Span(after, "added")]
            yield [Span(blank), padded, *values]
        else:
            yield [Span(blank), padded, Span(before, "removed")]
            yield [Span(blank + " " * name_width), Span("→ ", "dim"), Span(after, "added")]


def _few(values: Sequence[Any]) -> str:
    """Format a parameter's values.

    Up to six values are listed. If there are more and they are numbers, only the range is shown.
    """
    if len(values) <= _MOST_VALUES:
        return clean(", ".join(v if isinstance(v, str) else repr(v) for v in values))
    numbers = [v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)]
    if len(numbers) == len(values):
        return f"{min(numbers)!r} to {max(numbers)!r} ({len(values)} values)"
    some = ", ".join(v if isinstance(v, str) else repr(v) for v in values[:_MOST_VALUES])
    return clean(f"{some} and {len(values) - _MOST_VALUES} more")


def _metrics(spreads: Sequence[MetricSpread], names: tuple[str, str]) -> Iterator[DiffLine]:
    if not spreads:
        return
    rows = [("", *names)]
    for metric in spreads:
        name = clean(metric.name)
        rows.append((f"{name} least", _least(metric.before), _least(metric.after)))
        rows.append((f"{name} greatest", _greatest(metric.before), _greatest(metric.after)))
    widths = [max(width_of(row[i]) for row in rows) for i in range(3)]
    for position, row in enumerate(rows):
        first = row[0] + " " * (widths[0] - width_of(row[0]))
        text = f"{first}  {row[1].rjust(widths[1])}  {row[2].rjust(widths[2])}"
        yield [Span(text, "dim" if position == 0 else "")]


def _least(spread: Spread | None) -> str:
    return "-" if spread is None else f"{diff_text.number(spread.min)} (trial {spread.min_id})"


def _greatest(spread: Spread | None) -> str:
    return "-" if spread is None else f"{diff_text.number(spread.max)} (trial {spread.max_id})"
