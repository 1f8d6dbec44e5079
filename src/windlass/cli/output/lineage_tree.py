"""Prints the tree of a trial's origins and reruns."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from windlass.client.resources.trial.trial import Trial
    from windlass.model.records import TrialRecord

_MOST = 40  # print at most this many trials


class Branch(NamedTuple):
    """One trial in the printed tree of a trial's origins and reruns.

    `lines` are the line-drawing characters before the trial's name. `changes` describes how the
    trial differs from the trial that it reruns.
    """

    lines: str
    record: TrialRecord
    changes: str


class Signs(NamedTuple):
    """The characters used to draw the tree's lines."""

    fork: str = "├─ "
    last: str = "└─ "
    passing: str = "│  "
    arrow: str = "→"
    here: str = "← this one"


PLAIN = Signs("|- ", "`- ", "|  ", "->", "<- this one")


def print_lineage(trial: Trial[Any]) -> None:
    """Print the tree of a trial's origins and reruns. Print nothing if it has none."""
    from windlass.cli.output.text import can_print, clean, paint, state_colour

    signs = Signs() if can_print("".join(Signs())) else PLAIN
    branches = list(islice(_branches(trial, signs), _MOST + 1))
    if len(branches) == 1:
        return
    print()
    print(paint("Lineage", bold=True))
    for branch in branches[:_MOST]:
        record = branch.record
        is_this = record.id == trial.id
        state = paint(record.state.value, state_colour(record.state))
        label = f"{paint(str(record.id), bold=is_this)}  {clean(record.name)}  {state}"
        changes = f"  {clean(branch.changes)}" if branch.changes else ""
        here = f"  {paint(signs.here, bold=True)}" if is_this else ""
        print(f"  {paint(branch.lines, dim=True)}{label}{changes}{here}")
    if len(branches) > _MOST:
        print(paint("  and more: show one of the last to see its descendants", dim=True))


def _branches(trial: Trial[Any], signs: Signs) -> Iterator[Branch]:
    """Yield the tree's trials from top to bottom, fetching them on demand."""
    first = _first(trial)
    seen = {first.id}

    def below(above: Trial[Any], lines: str) -> Iterator[Branch]:
        reruns = [rerun for rerun in islice(above.reruns, _MOST + 1) if rerun.id not in seen]
        seen.update(rerun.id for rerun in reruns)
        for rerun in reruns:
            is_last = rerun is reruns[-1]
            changes = describe_changes(above.record, rerun.record, signs.arrow)
            yield Branch(lines + (signs.last if is_last else signs.fork), rerun.record, changes)
            yield from below(rerun, lines + ("   " if is_last else signs.passing))

    yield Branch("", first.record, "")
    yield from below(first, "")


def describe_changes(before: TrialRecord, after: TrialRecord, arrow: str = Signs().arrow) -> str:
    """Describe, on one line, how a rerun differs from its original trial."""
    from windlass.comparison.changes import find_changes, flat
    from windlass.comparison.settings import settings_of

    parts = [] if not after.recipe.checkpoint else [_beginning(after)]
    for change in (
        *find_changes(flat(before.params), flat(after.params)),
        *find_changes(settings_of(before.spec), settings_of(after.spec)),
    ):
        if change.kind == "removed":
            parts.append(f"without {change.name}")
        elif change.kind == "added":
            parts.append(f"{change.name} {change.after!r}")
        else:
            parts.append(f"{change.name} {change.before!r} {arrow} {change.after!r}")
    if before.spec.python.lock != after.spec.python.lock:
        parts.append("packages as recorded")
    return ", ".join(parts) or "the same again"


def _beginning(record: TrialRecord) -> str:
    how = "forked" if record.recipe.is_fork else "continued"
    begin = record.spec.begin
    return how if begin is None or begin.step is None else f"{how} at step {begin.step}"


def _first(trial: Trial[Any]) -> Trial[Any]:
    """Return the first trial in a chain of reruns, or the farthest one within a limit."""
    from windlass.model.errors import NotFound

    seen = {trial.id}
    for _ in range(_MOST // 2):
        try:
            origin = trial.origin
        except NotFound:
            return trial
        if origin is None or origin.id in seen:
            return trial
        seen.add(origin.id)
        trial = origin
    return trial
