"""Applies changes to metadata, such as labels, links, artifacts and searches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from windlass.model.errors import InvalidArgument
from windlass.model.records import Artifact, ExperimentRecord, Link
from windlass.model.requests import ChangeExperiment, ChangeLabels
from windlass.model.text import names
from windlass.model.text.names import name_flaw
from windlass.server.db.named_rows import set_fields

MAX_LABELS = 100
_SCRIPTS = ("javascript:", "vbscript:")
MAX_ENTRIES = 1000  # the most links or artifacts in one experiment
_PLAIN = ("name", "description", "notes", "config", "searches", "priority", "archived")


def changed_labels(labels: tuple[str, ...], change: ChangeLabels) -> tuple[str, ...]:
    """Return the labels after a change, without duplicates and in the requested order.

    >>> changed_labels(("old", "kept"), ChangeLabels(add_labels=("new",), remove_labels=("old",)))
    ('kept', 'new')
    """
    base = labels if isinstance(change.labels, msgspec.UnsetType) else change.labels
    remaining = dict.fromkeys((*base, *valid_labels(change.add_labels)))
    if base is not labels:
        valid_labels(base)
    for label in change.remove_labels:
        remaining.pop(label, None)
    if len(remaining) > MAX_LABELS:
        raise InvalidArgument(
            f"This would make {len(remaining)} labels. The limit is {MAX_LABELS}.",
            hint="Remove some: remove_label(...)",
        )
    return tuple(remaining)


def valid_labels(labels: tuple[str, ...]) -> tuple[str, ...]:
    """Return labels without duplicates. Raise InvalidArgument for an invalid label.

    >>> valid_labels(("paper", "paper"))
    ('paper',)
    """
    flaws = [f"labels: {flaw}" for label in labels if (flaw := name_flaw(label, "label"))]
    if flaws:
        raise InvalidArgument.of(flaws)
    return tuple(dict.fromkeys(labels))


def changed_columns(
    record: ExperimentRecord, change: ChangeExperiment, blob_size: Callable[[str], int], now: float
) -> dict[str, Any]:
    """Return the new values of the experiment columns that a request changes.

    `blob_size` is a function that returns the size of a blob, given its digest.
    """
    columns = set_fields(change, _PLAIN)
    if "name" in columns:
        names.check(name_flaw(columns["name"]), "name: ")
    if change.put_searches:
        columns["searches"] = merge_searches(
            columns.get("searches", record.searches), change.put_searches
        )
    labels = changed_labels(record.labels, change)
    if labels != record.labels:
        columns["labels"] = labels
    if change.put_links or change.remove_links:
        columns["links"] = _links(record, change)
    if change.put_artifacts or change.remove_artifacts:
        columns["artifacts"] = _artifacts(record, change, blob_size, now)
    return columns


def merge_searches(
    stored: dict[str, dict[str, Any]], requested: dict[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Add hyper-parameter searches, or extend existing searches that have the same names.

    The first request that names a search determines the search's settings. Later requests can only
    raise the number of trials.

    >>> merge_searches({"a": {"seed": 1, "trials": 5}}, {"a": {"seed": 2, "trials": 9}, "b": {}})
    {'a': {'seed': 1, 'trials': 9}, 'b': {}}
    """
    merged = {**requested, **stored}
    for name, settings in requested.items():
        before, now = merged[name].get("trials"), settings.get("trials")
        if isinstance(before, int) and isinstance(now, int) and now > before:
            merged[name] = {**merged[name], "trials": now}
    return merged


def _links(record: ExperimentRecord, change: ChangeExperiment) -> tuple[Link, ...]:
    for url in change.put_links.values():
        if url.lower().startswith(_SCRIPTS):  # browsers would run such a link as a script
            raise InvalidArgument(f"The link {url[:100]!r} is a script. A link must be an address.")
    links = {link.name: link for link in record.links}
    links |= {name: Link(name=name, url=url) for name, url in change.put_links.items()}
    return _remaining(links, change.remove_links, "links")


def _artifacts(
    record: ExperimentRecord, change: ChangeExperiment, blob_size: Callable[[str], int], now: float
) -> tuple[Artifact, ...]:
    artifacts = {artifact.name: artifact for artifact in record.artifacts}
    for name, digest in change.put_artifacts.items():
        if name not in artifacts or artifacts[name].digest != digest:
            size = blob_size(digest)
            artifacts[name] = Artifact(name=name, digest=digest, size=size, created=now)
    return _remaining(artifacts, change.remove_artifacts, "artifacts")


def _remaining(entries: dict[str, Any], removed: tuple[str, ...], noun: str) -> tuple[Any, ...]:
    for name in removed:
        entries.pop(name, None)
    if len(entries) > MAX_ENTRIES:
        raise InvalidArgument(
            f"This would make {len(entries)} {noun}. An experiment has at most {MAX_ENTRIES}.",
            hint=f"Remove some: remove_{noun[:-1]}(name)",
        )
    return tuple(entries.values())
