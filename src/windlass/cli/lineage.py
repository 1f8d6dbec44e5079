"""Where a trial comes from and what came of it: those it repeats and that repeat it, as a tree."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from windlass.client.trials import Trial
    from windlass.model.records import TrialRecord

_MOST = 40  # trials that are drawn


class Branch(NamedTuple):
    """One trial of the tree: what is drawn before it, and what it did otherwise."""

    lines: str
    record: TrialRecord
    changes: str


class Signs(NamedTuple):
    """What a tree is drawn with."""

    fork: str = "├─ "
    last: str = "└─ "
    passing: str = "│  "
    arrow: str = "→"
    here: str = "← this one"


PLAIN = Signs("|- ", "`- ", "|  ", "->", "<- this one")


def print_lineage(trial: Trial[Any]) -> None:
    """Draw the trials that this one repeats and that repeat it; nothing if there are none."""
    from windlass.cli.text import can_print, clean, paint, state_colour

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
        told = f"{paint(str(record.id), bold=is_this)}  {clean(record.name)}  {state}"
        changes = f"  {clean(branch.changes)}" if branch.changes else ""
        here = f"  {paint(signs.here, bold=True)}" if is_this else ""
        print(f"  {paint(branch.lines, dim=True)}{told}{changes}{here}")
    if len(branches) > _MOST:
        print(paint("  and more: show one of the last to see what came of it", dim=True))


def _branches(trial: Trial[Any], signs: Signs) -> Iterator[Branch]:
    """The tree in the order it is drawn, from the first origin on, asked for as it is."""
    first = _first(trial)
    seen = {first.id}

    def below(above: Trial[Any], lines: str) -> Iterator[Branch]:
        found = [each for each in islice(above.reruns, _MOST + 1) if each.id not in seen]
        seen.update(each.id for each in found)
        for each in found:
            is_last = each is found[-1]
            changes = what_changed(above.record, each.record, signs.arrow)
            yield Branch(lines + (signs.last if is_last else signs.fork), each.record, changes)
            yield from below(each, lines + ("   " if is_last else signs.passing))

    yield Branch("", first.record, "")
    yield from below(first, "")


def what_changed(before: TrialRecord, after: TrialRecord, arrow: str = Signs().arrow) -> str:
    """How a trial differs from the one it repeats, on one line."""
    from windlass.comparing.changes import changes_of, flat
    from windlass.comparing.settings import settings_of

    told = [] if not after.recipe.checkpoint else [_beginning(after)]
    for change in (
        *changes_of(flat(before.params), flat(after.params)),
        *changes_of(settings_of(before.spec), settings_of(after.spec)),
    ):
        if change.kind == "removed":
            told.append(f"without {change.name}")
        elif change.kind == "added":
            told.append(f"{change.name} {change.after!r}")
        else:
            told.append(f"{change.name} {change.before!r} {arrow} {change.after!r}")
    if before.spec.python.lock != after.spec.python.lock:
        told.append("packages as recorded")
    return ", ".join(told) or "the same again"


def _beginning(record: TrialRecord) -> str:
    how = "forked" if record.recipe.is_fork else "continued"
    begin = record.spec.begin
    return how if begin is None or begin.step is None else f"{how} at step {begin.step}"


def _first(trial: Trial[Any]) -> Trial[Any]:
    """The first origin; of a very long line, one not too far back."""
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
