"""The scope of a list: an object, an id, or a text that names one, as the server parses it."""

from __future__ import annotations

from typing import Any

from windlass.model.errors import InvalidArgument, shown

_HOW = {"experiment": "ls --experiments", "trial": "ls"}  # for other nouns: NOUN ls


def scope(noun: str, value: Any) -> dict[str, Any]:
    """Return the part of a query that limits a list; the server looks up names.

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
    """Return the id of an argument: a resource, an id, or an id as text.

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
    """Return the last parts of the path of a resource that has an id or a name.

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
    """Return an id from a number or a string, or None if it is not a whole number.

    >>> whole_number(7), whole_number("7"), whole_number(True), whole_number("x")
    (7, 7, None, None)
    """
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 19:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def is_resource(value: Any, noun: str) -> bool:
    """Return whether a value is an object of a resource: a `wl.Project` for the noun `project`.

    The classes of resources check their arguments here, so that this module imports none of them.
    """
    return getattr(type(value), "_collection", None) == f"{noun}s"


def _an(noun: str) -> str:
    return f"an {noun}" if noun == "experiment" else f"a {noun}"


def _see(noun: str) -> str:
    return f"See: windlass {_HOW.get(noun, f'{noun} ls')}"
