"""Compares two trials by their code, arguments, environment, metrics and outcome."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from windlass.comparison import settings
from windlass.comparison.changes import Change, find_changes, flat, plain
from windlass.comparison.code_diff import (
    FileChange,
    Row,
    changed_files,
    wanted_contents,
    with_lines,
)
from windlass.comparison.metrics import MetricChange, changed_metrics
from windlass.comparison.outside_code import changed_outside_code, unrecorded_code
from windlass.comparison.packages import changed_packages, read_packages
from windlass.model.records import TrialRecord, own_metrics
from windlass.model.run_time import seconds_run


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two compared trials."""

    id: int
    name: str
    state: str
    seconds: float | None = None  # the run time


class Diff(msgspec.Struct, frozen=True, kw_only=True):
    """The differences between two trials. Equal values are left out.

    `code` lists the changed files, and `metrics` lists both trials' metrics. `not_recorded` lists
    folders whose code may have differed although the snapshots do not show it. All other fields
    list named values with `before` and `after`. `str(diff)` is a readable text.

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
    notes: tuple[str, ...] = ()  # missing data and other differences
    not_recorded: tuple[str, ...] = ()  # code that either trial may have imported unrecorded

    @property
    def is_same_setup(self) -> bool:
        """True if both trials ran with the same code, arguments, environment and settings."""
        differences = (self.code, self.arguments, self.environment, self.packages, self.settings)
        return not any((*differences, self.git, self.notes))

    @property
    def is_same(self) -> bool:
        """True if the two trials differ at most in names and times."""
        return self.is_same_setup and not self.metrics and not self.outcome

    def to_dict(self) -> dict[str, Any]:
        """Return the diff as JSON values."""
        return {"is_same": self.is_same, **plain(self)}

    def __str__(self) -> str:
        from windlass.comparison.diff_text import format_diff

        return format_diff(self)

    def __repr__(self) -> str:
        names = [name for name in _PARTS if getattr(self, name)]
        return f"<Diff of trials {self.before.id} and {self.after.id}: {differing_parts(names)}>"

    def _repr_html_(self) -> str:
        from windlass.comparison.diff_text import diff_lines
        from windlass.display.html.lines import lines_page

        return lines_page(diff_lines(self), rest="print(diff) shows all of them.")


_PARTS = (
    "about", "code", "arguments", "environment", "packages", "settings", "git", "metrics",
    "outcome", "notes",
)  # fmt: skip


def differing_parts(names: Sequence[str]) -> str:
    """Return the names of a comparison's non-empty parts, for its short text.

    >>> differing_parts(["arguments", "metrics"]), differing_parts([])
    ('arguments, metrics', 'nothing differs')
    """
    return ", ".join(names) or "nothing differs"


class Materials(msgspec.Struct, kw_only=True):
    """The data downloaded for a comparison.

    `trees` maps each code tree's digest to its list of files. `blobs` maps digests to contents.
    """

    trees: dict[str, Sequence[Row]] = {}
    blobs: dict[str, bytes] = {}


def wanted_trees(before: TrialRecord, after: TrialRecord) -> list[str]:
    """Return the digests of the code trees to download for a comparison."""
    pairs = _tree_pairs(before, after)
    return list(dict.fromkeys(t for _, *trees in pairs for t in trees if _differ(*trees) and t))


def wanted_lists(before: TrialRecord, after: TrialRecord) -> list[str]:
    """Return the digests of the package lists to download, or [] if both trials share one list."""
    if _lists_of(before) == _lists_of(after):
        return []
    return list(dict.fromkeys([*_lists_of(before), *_lists_of(after)]))


def wanted_files(
    before: TrialRecord, after: TrialRecord, trees: Mapping[str, Sequence[Row]]
) -> list[str]:
    """Return the digests of the file contents to download for comparing lines."""
    return wanted_contents(_changed_code(before, after, trees))


def diff_trials(before: TrialRecord, after: TrialRecord, materials: Materials) -> Diff:
    """Compare two trials, using the data in `materials` that the caller has downloaded."""
    arguments = find_changes(flat(before.params), flat(after.params))
    old, new = before.spec, after.spec
    # If the arguments differ, leave them out of the commands, which would only repeat the change.
    commands = [settings.commands_of(spec, arguments=not arguments) for spec in (old, new)]
    rules = find_changes(
        *(
            command | settings.settings_of(spec)
            for command, spec in zip(commands, (old, new), strict=True)
        )
    )
    code = _changed_code(before, after, materials.trees)
    diff = Diff(
        before=summarize_trial(before),
        after=summarize_trial(after),
        about=find_changes(settings.about(before), settings.about(after)),
        code=with_lines(code, materials.blobs),
        arguments=arguments,
        environment=find_changes(settings.environment_of(before), settings.environment_of(after)),
        packages=_changed_packages(before, after, materials),
        settings=rules,
        git=find_changes(settings.git_of(before), settings.git_of(after)),
        metrics=changed_metrics(own_metrics(before.metrics), own_metrics(after.metrics)),
        outcome=_changed_outcome(before, after),
        notes=(*_notes(before, after, materials), *changed_outside_code(before, after)),
        not_recorded=unrecorded_code(before, after),
    )
    if diff.is_same_setup and settings.payloads_of(old) != settings.payloads_of(new):
        unseen = "The pickled calls differ, but the recorded arguments do not."
        return msgspec.structs.replace(diff, notes=(unseen,))
    return diff


def summarize_trial(record: TrialRecord) -> Side:
    """Return a trial's id, name, state and run time."""
    seconds = seconds_run(record)
    return Side(id=record.id, name=record.name, state=record.state.value, seconds=seconds)


def _tree_pairs(
    before: TrialRecord, after: TrialRecord
) -> list[tuple[str, str | None, str | None]]:
    """Return pairs of code trees to compare.

    If a trial's roles have different trees, there is one pair per role.
    """
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
    """Compare the installed packages. If either trial's packages are unknown, return ()."""
    old, new = _packages(before, materials), _packages(after, materials)
    return changed_packages(old, new) if old is not None and new is not None else ()


def _packages(record: TrialRecord, materials: Materials) -> dict[str, str] | None:
    """Return the versions of a trial's packages.

    Versions in the lock of `packages=` take precedence.
    """
    lists = _lists_of(record)
    if not lists or any(digest not in materials.blobs for digest in lists):
        return None
    return read_packages(*(materials.blobs[digest] for digest in lists))


def _changed_outcome(before: TrialRecord, after: TrialRecord) -> tuple[Change, ...]:
    changes = find_changes(settings.outcome_of(before), settings.outcome_of(after))
    if before.result is None or after.result is None or before.result.text != after.result.text:
        return changes
    # Different values can have the same text, which is only a preview.
    values = {"value": before.result.digest[:12]}, {"value": after.result.digest[:12]}
    return (*changes, *find_changes(*values))


def _notes(before: TrialRecord, after: TrialRecord, materials: Materials) -> Iterable[str]:
    for role, old, new in _tree_pairs(before, after):
        of = f" of {role}" if role else ""
        for record, tree, other in ((before, old, new), (after, new, old)):
            if tree is None and other is not None:
                yield f"Trial {record.id} has no recorded code{of}."
            elif _differ(tree, other) and tree not in materials.trees:
                yield f"The code{of} of trial {record.id} no longer exists, so it is not compared."
    if _lists_of(before) == _lists_of(after):
        return
    for record in (before, after):
        if _packages(record, materials) is None:
            yield f"The packages of trial {record.id} are unknown."
