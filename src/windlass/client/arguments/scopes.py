"""Converts references to resources, such as `project="vision"` or `trial=7`, for requests."""

from __future__ import annotations

from typing import Any

from windlass.model.errors import InvalidArgument, shown

_HOW = {"experiment": "ls --experiments", "trial": "ls"}  # all other nouns use "NOUN ls"


def scope(noun: str, value: Any) -> dict[str, Any]:
    """Return the query parameters that limit a list to one resource. Names are sent unchanged.

    >>> scope("project", "vision"), scope("experiment", 3), scope("trial", None)
    ({'project': 'vision'}, {'experiment_id': 3}, {})
    """
    if value is None:
        return {}
    if isinstance(value, str) and noun != "trial":
        if not value:
            raise InvalidArgument(f"{noun}='' does not name a {noun}.", hint=_see(noun))
        return {noun: value}
    return {f"{noun}_id": check_id(noun, value)}


def check_id(noun: str, value: Any) -> int:
    """Return the id for an argument that is a resource, an id, or an id as text.

    >>> check_id("trial", 7), check_id("trial", "7")
    (7, 7)
    """
    number = whole_number(value)
    if number is not None:
        return number
    if is_resource(value, noun):
        resource_id: int = value.id
        return resource_id
    is_one = "its id" if noun == "trial" else "its id or its name"
    raise InvalidArgument(f"{noun}={shown(value)}: write {_an(noun)}, {is_one}.", hint=_see(noun))


def id_or_name_path(id_or_name: Any, noun: str) -> tuple[object, ...]:
    """Return the last segments of a resource's URL path, from the resource's id or name.

    >>> id_or_name_path(3, "model"), id_or_name_path("net", "model")
    ((3,), ('named', 'net'))
    """
    if isinstance(id_or_name, str) and id_or_name:
        return "named", id_or_name
    if isinstance(id_or_name, int) and not isinstance(id_or_name, bool):
        return (id_or_name,)
    raise InvalidArgument(
        f"{shown(id_or_name)} is neither a name nor an id of a {noun}.",
        hint=f"See: windlass {noun} ls",
    )


def whole_number(value: Any) -> int | None:
    """Convert a number or string to an integer. Return None if it is not a whole number.

    >>> whole_number(7), whole_number("7"), whole_number(True), whole_number("x")
    (7, 7, None, None)
    """
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 19:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def is_resource(value: Any, noun: str) -> bool:
    """Return whether a value is a resource of this kind, such as a `wl.Project` for "project".

    The check does not use `isinstance`, because the resource classes import this module, so this
    module cannot import them.
    """
    return getattr(type(value), "_collection", None) == f"{noun}s"


def _an(noun: str) -> str:
    return f"an {noun}" if noun == "experiment" else f"a {noun}"


def _see(noun: str) -> str:
    return f"See: windlass {_HOW.get(noun, f'{noun} ls')}"
