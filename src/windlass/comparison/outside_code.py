"""Compares code outside the project that the trials' snapshots do not contain."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.model.job import Code, OutsidePackage
from windlass.model.records import TrialRecord


def changed_outside_code(before: TrialRecord, after: TrialRecord) -> Iterable[str]:
    """Yield a note for each uncaptured package that changed or may have changed."""
    old, new = _uncaptured(before), _uncaptured(after)
    for path in dict.fromkeys((*old, *new)):
        package = new.get(path) or old[path]
        shown = f"{package.name} in {path}"
        if path not in old or path not in new:
            trial = before if path in old else after
            yield f"{shown} was not recorded with trial {trial.id}, so it is not compared."
        elif not (old[path].state and new[path].state):
            yield f"It is not known whether {shown} changed: it was not recorded."
        elif old[path].state != new[path].state:
            yield f"{shown} changed, but it was not recorded, so its changes are not known."


def unrecorded_code(before: TrialRecord, after: TrialRecord) -> tuple[str, ...]:
    """Return a sentence for each folder from which a trial may have used unrecorded files."""
    paths = dict.fromkeys(
        package.path
        for record in (before, after)
        for package in _packages(record)
        if package.is_partial
    )
    links = dict.fromkeys(
        (link.path, link.target)
        for record in (before, after)
        for code in _codes(record)
        for link in code.links
    )
    modules = [
        f"Modules that only the trials themselves imported from {path} are not recorded."
        for path in paths
    ]
    files = [
        f"The files behind the link {path} → {target} are not recorded." for path, target in links
    ]
    return (*modules, *files)


def _uncaptured(record: TrialRecord) -> dict[str, OutsidePackage]:
    return {package.path: package for package in _packages(record) if not package.folder}


def _packages(record: TrialRecord) -> Iterable[OutsidePackage]:
    for code in _codes(record):
        yield from code.packages


def _codes(record: TrialRecord) -> list[Code]:
    spec = record.spec
    return [spec.code, *(role.code for role in spec.roles if role.code)]
