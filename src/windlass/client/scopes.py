"""What a list is of, as the server reads it: an object, an id, or a text that names one."""

from __future__ import annotations

from typing import Any

from windlass.model.errors import InvalidArgument, shown

_HOW = {"experiment": "ls --experiments", "trial": "ls"}  # else NOUN ls


def scope(noun: str, given: Any) -> dict[str, Any]:
    """The part of a query that says what a list is of; names are looked up by the server.

    >>> scope("project", "vision"), scope("experiment", 3), scope("trial", None)
    ({'project': 'vision'}, {'experiment_id': 3}, {})
    """
    if given is None:
        return {}
    if isinstance(given, str) and noun != "trial":
        if not given:
            raise InvalidArgument(f"{noun}='' names no {noun}.", hint=_see(noun))
        return {noun: given}
    return {f"{noun}_id": check_id(noun, given)}


def check_id(noun: str, given: Any) -> int:
    """The id of what is given: itself, its id, or that as a text.

    >>> check_id("trial", 7), check_id("trial", "7")
    (7, 7)
    """
    number = whole_number(given)
    if number is not None:
        return number
    if not isinstance(given, (str, bool)) and isinstance(given, _kind_of(noun)):
        found: int = given.id
        return found
    is_one = "its id" if noun == "trial" else "its id or its name"
    raise InvalidArgument(f"{noun}={shown(given)}: it is {_an(noun)}, {is_one}.", hint=_see(noun))


def whole_number(given: Any) -> int | None:
    """The id that is given, as a number or a text; none if it is no whole number.

    >>> whole_number(7), whole_number("7"), whole_number(True), whole_number("x")
    (7, 7, None, None)
    """
    if isinstance(given, str) and given.isascii() and given.isdecimal() and len(given) < 19:
        return int(given)
    return given if isinstance(given, int) and not isinstance(given, bool) else None


def _kind_of(noun: str) -> type[Any]:
    if noun == "experiment":
        from windlass.client.experiments import Experiment

        return Experiment
    if noun == "trial":
        from windlass.client.trials import Trial

        return Trial
    from windlass.client.places import Project, Workspace

    return Project if noun == "project" else Workspace


def _an(noun: str) -> str:
    return f"an {noun}" if noun == "experiment" else f"a {noun}"


def _see(noun: str) -> str:
    return f"See: windlass {_HOW.get(noun, f'{noun} ls')}"
