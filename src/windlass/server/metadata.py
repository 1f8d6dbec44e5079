"""What people note on experiments and trials: changed piece by piece, in the writer's turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from windlass.model import names
from windlass.model.errors import InvalidArgument
from windlass.model.names import name_flaw
from windlass.model.records import Artifact, ExperimentRecord, Link
from windlass.model.wire import ChangeExperiment, ChangeLabels
from windlass.server.named import given_fields

MOST_LABELS = 100
_SCRIPTS = ("javascript:", "vbscript:")
MOST_ENTRIES = 1000  # links, artifacts
_PLAIN = ("name", "description", "notes", "config", "searches", "priority", "archived")


def changed_labels(labels: tuple[str, ...], change: ChangeLabels) -> tuple[str, ...]:
    """The labels that a change comes to, each once, in the order they were given in.

    >>> changed_labels(("old", "kept"), ChangeLabels(add_labels=("new",), remove_labels=("old",)))
    ('kept', 'new')
    """
    first = labels if isinstance(change.labels, msgspec.UnsetType) else change.labels
    wanted = dict.fromkeys((*first, *kept_labels(change.add_labels)))
    if first is not labels:
        kept_labels(first)
    for label in change.remove_labels:
        wanted.pop(label, None)
    if len(wanted) > MOST_LABELS:
        raise InvalidArgument(
            f"These would be {len(wanted)} labels; there can be {MOST_LABELS}.",
            hint="Remove some: remove_label(...)",
        )
    return tuple(wanted)


def kept_labels(labels: tuple[str, ...]) -> tuple[str, ...]:
    """Labels that were given, each once; what is no label is refused.

    >>> kept_labels(("paper", "paper"))
    ('paper',)
    """
    flaws = [f"labels: {flaw}" for label in labels if (flaw := name_flaw(label, "label"))]
    if flaws:
        raise InvalidArgument.of(flaws)
    return tuple(dict.fromkeys(labels))


def changed_columns(
    record: ExperimentRecord, change: ChangeExperiment, size_of: Callable[[str], int], now: float
) -> dict[str, Any]:
    """The columns of an experiment that a change gives other values, with those values.

    `size_of` says how large a blob is that is to be an artifact.
    """
    given = given_fields(change, _PLAIN)
    if "name" in given:
        names.check(name_flaw(given["name"]), "name: ")
    if change.put_searches:
        given["searches"] = begun_searches(
            given.get("searches", record.searches), change.put_searches
        )
    labels = changed_labels(record.labels, change)
    if labels != record.labels:
        given["labels"] = labels
    if change.put_links or change.remove_links:
        given["links"] = _links(record, change)
    if change.put_artifacts or change.remove_artifacts:
        given["artifacts"] = _artifacts(record, change, size_of, now)
    return given


def begun_searches(
    known: dict[str, dict[str, Any]], given: dict[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Searches, and those that are begun or extended: the first to begin one says what it is.

    >>> begun_searches({"a": {"seed": 1, "trials": 5}}, {"a": {"seed": 2, "trials": 9}, "b": {}})
    {'a': {'seed': 1, 'trials': 9}, 'b': {}}
    """
    merged = {**given, **known}
    for name, settings in given.items():
        before, now = merged[name].get("trials"), settings.get("trials")
        if isinstance(before, int) and isinstance(now, int) and now > before:
            merged[name] = {**merged[name], "trials": now}
    return merged


def _links(record: ExperimentRecord, change: ChangeExperiment) -> tuple[Link, ...]:
    for url in change.put_links.values():
        if url.lower().startswith(_SCRIPTS):  # which would run where a page shows it
            raise InvalidArgument(f"The link {url[:100]!r} is a script, not a place.")
    links = {each.name: each for each in record.links}
    links |= {name: Link(name=name, url=url) for name, url in change.put_links.items()}
    return _left(links, change.remove_links, "links")


def _artifacts(
    record: ExperimentRecord, change: ChangeExperiment, size_of: Callable[[str], int], now: float
) -> tuple[Artifact, ...]:
    artifacts = {each.name: each for each in record.artifacts}
    for name, digest in change.put_artifacts.items():
        if name not in artifacts or artifacts[name].digest != digest:
            size = size_of(digest)
            artifacts[name] = Artifact(name=name, digest=digest, size=size, created=now)
    return _left(artifacts, change.remove_artifacts, "artifacts")


def _left(entries: dict[str, Any], gone: tuple[str, ...], what: str) -> tuple[Any, ...]:
    for name in gone:
        entries.pop(name, None)
    if len(entries) > MOST_ENTRIES:
        raise InvalidArgument(
            f"These would be {len(entries)} {what}; an experiment has at most {MOST_ENTRIES}.",
            hint=f"Remove some: remove_{what[:-1]}(name)",
        )
    return tuple(entries.values())
