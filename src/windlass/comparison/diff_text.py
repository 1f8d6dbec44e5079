"""Formats the differences between two trials as text with optional styles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from windlass.comparison.changes import Change
from windlass.comparison.code_diff import FileChange
from windlass.comparison.metrics import MetricChange
from windlass.comparison.trials import Diff, Side
from windlass.model.records import Summary
from windlass.model.text.display import clean, clean_lines, shorten, width_of
from windlass.model.text.quantities import format_duration, format_size

_LETTERS = {"added": "A", "removed": "D", "changed": "M", "renamed": "R"}
_SIGN_STYLES = {"+": "added", "-": "removed", "@": "hunk", "\\": "dim"}
_DURATIONS = ("deadline", "kept after its end")
_LEAST_ROOM = 16  # a value's minimum width, even in a narrow terminal


class Span(NamedTuple):
    """Text with one style: `head`, `added`, `removed`, `hunk`, `dim`, or ""."""

    text: str
    style: str = ""


DiffLine = Sequence[Span]


def format_diff(diff: Diff, *, code: bool = True) -> str:
    """Format a diff as plain text."""
    return plain(diff_lines(diff, code=code))


def plain(lines: Iterator[DiffLine]) -> str:
    """Join lines into one text without styles."""
    return "\n".join("".join(piece.text for piece in line).rstrip() for line in lines)


def diff_lines(diff: Diff, *, code: bool = True, width: int | None = None) -> Iterator[DiffLine]:
    """Yield the lines that show the differences between two trials.

    With `code`, this includes the changed lines of files.
    """
    names = f"{diff.before.id}", f"{diff.after.id}"
    for side in (diff.before, diff.after):
        yield _heading(side)
    if diff.is_same:
        yield ()
        yield [Span(_sameness(diff))]
        yield from _unrecorded(diff)
    yield from section("Names and labels", changes(diff.about, width))
    yield from section("Notes", ([Span(clean(note))] for note in diff.notes))
    yield from section("Arguments", changes(diff.arguments, width))
    yield from section(code_title(diff.code), files(diff.code))
    yield from section("Git", changes(diff.git, width))
    yield from section("Environment", changes(diff.environment, width))
    yield from section("Packages", changes(diff.packages, width))
    yield from section("Resources and rules", changes(diff.settings, width))
    if diff.is_same_setup and not diff.is_same:
        yield ()
        yield [Span("Same code, arguments, environment and resources.")]
        yield from _unrecorded(diff)
    yield from section("Metrics", metrics(diff.metrics, names))
    yield from section("Outcome", changes(diff.outcome, width))
    if code:
        yield from code_lines(diff.code)


def section(title: str, lines: Iterator[DiffLine]) -> Iterator[DiffLine]:
    """Yield lines below a title. Without any lines, yield no title either."""
    is_first = True
    for line in lines:
        if is_first:
            yield ()
            yield [Span(title, "head")]
            is_first = False
        yield [Span("  "), *line]


def changes(setting_changes: Sequence[Change], width: int | None = None) -> Iterator[DiffLine]:
    """Yield one line per changed value, such as `lr  0.1 → 0.3`.

    A plus or minus sign marks a value that only one of the trials has.
    """
    names = [clean(change.name) for change in setting_changes]
    name_width = max(map(width_of, names), default=0)
    blank = Span("" if all(change.kind == "changed" for change in setting_changes) else "  ")
    for name, change in zip(names, setting_changes, strict=True):
        before, after = _value(change.name, change.before), _value(change.name, change.after)
        if before == after:  # for example "1" and 1
            before, after = clean(repr(change.before)), clean(repr(change.after))
        if width is not None:
            space = max(
                width - name_width - 6, _LEAST_ROOM
            )  # the width of the text around the values
            if change.kind == "changed":
                before, after = _fit_both(before, after, space - 3)
            before, after = shorten(before, space), shorten(after, space)
        padded = name + " " * (name_width - width_of(name) + 2)
        if change.kind == "changed":
            values = [Span(before, "removed"), Span(" → ", "dim"), Span(after, "added")]
            yield [blank, Span(padded), *values]
        elif change.kind == "added":
            yield [Span("+ ", "added"), Span(padded), Span(after, "added")]
        else:
            yield [Span("- ", "removed"), Span(padded), Span(before, "removed")]


def code_title(file_changes: Sequence[FileChange]) -> str:
    """Return a title for changed files, such as `Code: 2 files changed, 1 added`."""
    words: list[str] = []
    for kind in ("changed", "added", "removed", "renamed"):
        if number := sum(change.kind == kind for change in file_changes):
            noun = "" if words else " file" if number == 1 else " files"
            words.append(f"{number}{noun} {kind}")
    return "Code: " + ", ".join(words)


def files(file_changes: Sequence[FileChange]) -> Iterator[DiffLine]:
    """Yield one line per changed file, with its numbers of added and removed lines."""
    names = [_file_name(change) for change in file_changes]
    name_width = max(map(width_of, names), default=0)
    for name, change in zip(names, file_changes, strict=True):
        style = {"added": "added", "removed": "removed"}.get(change.kind, "")
        line = [Span(_LETTERS[change.kind] + " ", style), Span(name)]
        details = []
        if change.added:
            details.append(Span(f"+{change.added}", "added"))
        if change.removed:
            details.append(Span(f"-{change.removed}", "removed"))
        if change.note:
            details.append(Span(clean(change.note), "dim"))
        if details:
            line.append(Span(" " * (name_width - width_of(name) + 1)))
        for piece in details:
            line += [Span(" "), piece]
        yield line


def code_lines(file_changes: Sequence[FileChange]) -> Iterator[DiffLine]:
    """Yield the changed lines of all files."""
    for change in file_changes:
        if not change.lines:
            continue
        yield ()
        old, new = shown_path(change.old_path or change.path), shown_path(change.path)
        whose = f" ({change.role})" if change.role else ""
        yield [Span(f"--- {old if change.before else '/dev/null'}{whose}", "head")]
        yield [Span(f"+++ {new if change.after else '/dev/null'}{whose}", "head")]
        for line in change.lines:
            yield [Span(clean_lines(line), _SIGN_STYLES.get(line[:1], ""))]


def metrics(metric_changes: Sequence[MetricChange], names: tuple[str, str]) -> Iterator[DiffLine]:
    """Yield a table with both trials' metrics.

    The table shows each metric's last value and, if the metric has several values, its minimum and
    maximum.
    """
    rows = [("", *names, "change")]
    for metric in metric_changes:
        rows += _metric_rows(metric)
    if len(rows) == 1:
        return
    widths = [max(width_of(row[i]) for row in rows) for i in range(4)]
    for number, row in enumerate(rows):
        name = row[0] + " " * (widths[0] - width_of(row[0]))
        cells = "".join("  " + cell.rjust(widths[i]) for i, cell in enumerate(row[1:], start=1))
        yield [Span(f"{name}{cells}", "dim" if number == 0 else "")]


def shown_path(path: str) -> str:
    r"""Return a path for display, quoted if it has unprintable characters.

    >>> print(shown_path("src/a b.py"), shown_path("odd\n\udcff"))
    src/a b.py 'odd\n\udcff'
    """
    return path if path.isprintable() else repr(path)


def number(value: float | None) -> str:
    """Format a number for people. None becomes `-`.

    >>> [number(value) for value in (0.25, 1 / 3, 12345678.0, 1e-7, float("nan"), None)]
    ['0.25', '0.333333', '1.23457e+07', '1e-07', 'nan', '-']
    """
    return "-" if value is None else f"{value:.6g}"


def _heading(side: Side) -> DiffLine:
    took = f"  {format_duration(side.seconds)}" if side.seconds is not None else ""
    title = Span(f"Trial {side.id}", "head")
    return [title, Span(f"  {clean(side.name)}  {side.state}{took}")]


def _sameness(diff: Diff) -> str:
    ended = all(side.state in ("SUCCEEDED", "FAILED", "STOPPED") for side in _sides(diff))
    so_far = "" if ended else " so far"
    if diff.not_recorded:
        so_far += " in what was recorded"
    return (
        f"Nothing differs{so_far}: same code, arguments, environment, packages, resources, "
        "metrics and outcome."
    )


def _unrecorded(diff: Diff) -> Iterator[DiffLine]:
    for text in diff.not_recorded:
        yield [Span(clean(text))]


def _sides(diff: Diff) -> tuple[Side, Side]:
    return diff.before, diff.after


def _file_name(change: FileChange) -> str:
    name = shown_path(change.path)
    if change.old_path:
        name = f"{shown_path(change.old_path)} → {name}"
    return f"{name} ({change.role})" if change.role else name


def _metric_rows(metric: MetricChange) -> Iterator[tuple[str, str, str, str]]:
    before, after = metric.before or Summary(), metric.after or Summary()
    name = clean(metric.name)
    rows = [(name, before.last, after.last)]
    if max(before.count, after.count) > 1:
        ends = [(f"{name} min", before.min, after.min), (f"{name} max", before.max, after.max)]
        rows += [row for row in ends if row[1] != row[2]]
    for label, old, new in rows:
        change = "" if old is None or new is None else f"{new - old:+.4g}"
        yield label, number(old), number(new), change


def _value(name: str, value: Any) -> str:
    name = name.rpartition(": ")[2]
    if name == "memory" and isinstance(value, int):
        return format_size(value)
    if name in _DURATIONS and isinstance(value, (int, float)):
        return format_duration(value)
    if name == "commit" and isinstance(value, str):
        return clean(value[:12])
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    if isinstance(value, str):
        is_plain = value and value.isprintable() and value == value.strip()
        return value if is_plain else repr(value)
    return clean(repr(value))


def _fit_both(before: str, after: str, space: int) -> tuple[str, str]:
    """Shorten two values so that both fit on one line.

    If one value is short, the other gets more than half of the line.
    """
    first, second = width_of(before), width_of(after)
    if first + second <= space:
        return before, after
    half = space // 2
    if first <= half:
        return before, shorten(after, space - first)
    if second <= half:
        return shorten(before, space - second), after
    # Long values often start with the same text. Skip it, so that the difference is visible.
    pairs = enumerate(zip(before, after, strict=False))
    same = next((i for i, (old, new) in pairs if old != new), half)
    if same > half // 2:
        skipped = same - half // 4
        before, after = "…" + before[skipped:], "…" + after[skipped:]
    return shorten(before, half), shorten(after, half)
