"""Converts the filters of `list_...` functions to query parameters for the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from windlass.client.arguments.metadata_checks import label_query
from windlass.client.arguments.scopes import scope
from windlass.client.arguments.times import Moment, parse_moment
from windlass.model.errors import InvalidArgument, shown

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Filters(TypedDict, total=False):
    """All filters of `list_...` functions. Each function accepts a subset.

    The value None matches everything.
    """

    workspace: Any  # a workspace, its id or its name
    project: Any  # a project, its id or its name
    experiment: Any  # an experiment, its id or its name
    state: str | Sequence[str] | None
    name: str | None
    called: str  # an experiment's name, with or without its project
    labels: str | Sequence[str] | None
    user: str | None
    kind: str | Sequence[str] | None
    created_after: Moment | None
    created_before: Moment | None
    where: str | None
    origin_id: int | None
    parent_id: int | None
    archived: bool | None


def filter_query(**filters: Unpack[Filters]) -> dict[str, Any]:
    """Check a list's filters and return them as query parameters.

    >>> filter_query(project="vision", state=["failed", "stopped"], archived=None)
    {'project': 'vision', 'state': 'FAILED,STOPPED', 'archived': None}
    """
    query: dict[str, Any] = {}
    for name, value in filters.items():
        if name in ("workspace", "project", "experiment"):
            query |= scope(name, value)
        elif name in _WRITTEN:
            query[name] = _WRITTEN[name](value)
        else:
            query[name] = value
    return query


def flag(value: bool | None) -> str | None:
    """Convert a boolean to the text of a query parameter.

    None stays None, so that the parameter is omitted.

    >>> flag(True), flag(None)
    ('true', None)
    """
    return None if value is None else str(bool(value)).lower()


def words(name: str, value: object, spell: Callable[[str], str]) -> str | None:
    """Convert one or several words to the text of a query parameter, joined with commas.

    >>> words("state", ["failed", "stopped"], str.upper), words("kind", None, str.lower)
    ('FAILED,STOPPED', None)
    """
    if value is None:
        return None
    several: list[Any] = [value]
    if isinstance(value, Iterable) and not isinstance(value, str):
        several = list(value)
    if not all(isinstance(word, str) for word in several):
        raise InvalidArgument(f"{name}={shown(value)}: write a string, or a list of strings.")
    return ",".join(map(spell, several)) or None


_WRITTEN: dict[str, Any] = {
    "state": lambda state: words("state", state, str.upper),
    "kind": lambda kind: words("kind", kind, str.lower),
    "labels": label_query,
    "created_after": lambda time: parse_moment("created_after", time),
    "created_before": lambda time: parse_moment("created_before", time),
    "archived": flag,
}
