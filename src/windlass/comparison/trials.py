"""Two trials: everything recorded of them that differs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from windlass.comparison import settings
from windlass.comparison.changes import Change, changes_of, flat, plain
from windlass.comparison.code_diff import (
    FileChange,
    Row,
    changed_files,
    wanted_contents,
    with_lines,
)
from windlass.comparison.metrics import MetricChange, changed_metrics
from windlass.comparison.packages import changed_packages, read_packages
from windlass.model.records import TrialRecord, own_metrics
from windlass.model.run_time import seconds_run


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """Which trial stands on a side."""

    id: int
    name: str
    state: str
    seconds: float | None = None  # that it ran


class Diff(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between two trials; what is the same is left out.

    `code` are the files (`path`, `kind`, `added`, `removed`, `lines`), `metrics` the summaries on
    both sides; all others are named values with `before` and `after`. `str(diff)` is for people.

    ```python
    diff = wl.get_trial(1).diff(3)
    print(diff)
    for change in diff.packages:
        print(change.name, change.before, change.after)
    ```
    """

    before: Side
    after: Side
    about: tuple[Change, ...] = ()  # names and labels
    code: tuple[FileChange, ...] = ()
    arguments: tuple[Change, ...] = ()
    environment: tuple[Change, ...] = ()  # Python, interpreter, platform, host, env=
    packages: tuple[Change, ...] = ()
    settings: tuple[Change, ...] = ()  # resources, replicas, framework, policies
    git: tuple[Change, ...] = ()
    metrics: tuple[MetricChange, ...] = ()
    outcome: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()  # what could not be compared, or is not seen in any of these

    @property
    def is_same_setup(self) -> bool:
        """Whether they ran the same: code, arguments, environment, settings."""
        differences = (self.code, self.arguments, self.environment, self.packages, self.settings)
        return not any((*differences, self.git, self.notes))

    @property
    def is_same(self) -> bool:
        """Whether nothing differs but what they are called and when they ran."""
        return self.is_same_setup and not self.metrics and not self.outcome

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, as JSON has them."""
        return {"is_same": self.is_same, **plain(self)}

    def __str__(self) -> str:
        from windlass.comparison.diff_text import text_of

        return text_of(self)


class Materials(msgspec.Struct, kw_only=True):
    """What the records only name: lists of files by tree, and blobs by digest."""

    trees: dict[str, Sequence[Row]] = {}
    blobs: dict[str, bytes] = {}


def wanted_trees(before: TrialRecord, after: TrialRecord) -> list[str]:
    """The trees that have to be known to tell what differs."""
    pairs = _tree_pairs(before, after)
    return list(dict.fromkeys(t for _, *trees in pairs for t in trees if _differ(*trees) and t))


def wanted_lists(before: TrialRecord, after: TrialRecord) -> list[str]:
    """The blobs that list packages, where they differ."""
    if _lists_of(before) == _lists_of(after):
        return []
    return list(dict.fromkeys([*_lists_of(before), *_lists_of(after)]))


def wanted_files(
    before: TrialRecord, after: TrialRecord, trees: Mapping[str, Sequence[Row]]
) -> list[str]:
    """The contents of files that have to be known to tell which lines differ."""
    return wanted_contents(_changed_code(before, after, trees))


def diff_trials(before: TrialRecord, after: TrialRecord, materials: Materials) -> Diff:
    """What differs, from the records and what was fetched for them."""
    arguments = changes_of(flat(before.params), flat(after.params))
    old, new = before.spec, after.spec
    # Where arguments differ, the command line would only say so again.
    commands = [settings.commands_of(spec, arguments=not arguments) for spec in (old, new)]
    rules = changes_of(
        *(
            command | settings.settings_of(spec)
            for command, spec in zip(commands, (old, new), strict=True)
        )
    )
    code = _changed_code(before, after, materials.trees)
    diff = Diff(
        before=side_of(before),
        after=side_of(after),
        about=changes_of(settings.about(before), settings.about(after)),
        code=with_lines(code, materials.blobs),
        arguments=arguments,
        environment=changes_of(settings.environment_of(before), settings.environment_of(after)),
        packages=_changed_packages(before, after, materials),
        settings=rules,
        git=changes_of(settings.git_of(before), settings.git_of(after)),
        metrics=changed_metrics(own_metrics(before.metrics), own_metrics(after.metrics)),
        outcome=_changed_outcome(before, after),
        notes=tuple(_notes(before, after, materials)),
    )
    if diff.is_same_setup and settings.payloads_of(old) != settings.payloads_of(new):
        unseen = "The pickled calls differ in something that no recorded argument shows."
        return msgspec.structs.replace(diff, notes=(unseen,))
    return diff


def side_of(record: TrialRecord) -> Side:
    """A trial in a few words."""
    seconds = seconds_run(record)
    return Side(id=record.id, name=record.name, state=record.state.value, seconds=seconds)


def _tree_pairs(
    before: TrialRecord, after: TrialRecord
) -> list[tuple[str, str | None, str | None]]:
    """Which tree is compared with which: by role, where roles have different ones."""
    old, new = settings.trees_of(before.spec), settings.trees_of(after.spec)
    if len(set(old.values())) == 1 and len(set(new.values())) == 1:
        return [("", next(iter(old.values())), next(iter(new.values())))]
    return [(role, old[role], new[role]) for role in old if role in new]


def _differ(before: str | None, after: str | None) -> bool:
    return before is not None and after is not None and before != after


def _changed_code(
    before: TrialRecord, after: TrialRecord, trees: Mapping[str, Sequence[Row]]
) -> tuple[FileChange, ...]:
    return tuple(
        change
        for role, old, new in _tree_pairs(before, after)
        if old in trees and new in trees and old != new
        for change in changed_files(trees[str(old)], trees[str(new)], role=role)
    )


def _lists_of(record: TrialRecord) -> list[str]:
    return [d for d in (record.provenance.packages, record.spec.python.lock) if d is not None]


def _changed_packages(
    before: TrialRecord, after: TrialRecord, materials: Materials
) -> tuple[Change, ...]:
    """What differs in what they can import; nothing can be said unless both are known."""
    old, new = _packages(before, materials), _packages(after, materials)
    return changed_packages(old, new) if old is not None and new is not None else ()


def _packages(record: TrialRecord, materials: Materials) -> dict[str, str] | None:
    """What was installed, and over it what its `packages=` came to."""
    lists = _lists_of(record)
    if not lists or any(digest not in materials.blobs for digest in lists):
        return None
    return read_packages(*(materials.blobs[digest] for digest in lists))


def _changed_outcome(before: TrialRecord, after: TrialRecord) -> tuple[Change, ...]:
    changes = changes_of(settings.outcome_of(before), settings.outcome_of(after))
    if before.result is None or after.result is None or before.result.text != after.result.text:
        return changes
    # What is shown of two values may be the same where they are not.
    values = {"value": before.result.digest[:12]}, {"value": after.result.digest[:12]}
    return (*changes, *changes_of(*values))


def _notes(before: TrialRecord, after: TrialRecord, materials: Materials) -> Iterable[str]:
    for role, old, new in _tree_pairs(before, after):
        of = f" of {role}" if role else ""
        for record, tree, other in ((before, old, new), (after, new, old)):
            if tree is None and other is not None:
                yield f"Trial {record.id} has no recorded code{of}."
            elif _differ(tree, other) and tree not in materials.trees:
                yield f"The code{of} of trial {record.id} is no longer there to be compared."
    if _lists_of(before) == _lists_of(after):
        return
    for record in (before, after):
        if _packages(record, materials) is None:
            yield f"The packages of trial {record.id} are not known."
