"""Checks labels, texts, names and links before they are sent in a request."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from windlass.client.arguments.scopes import is_resource
from windlass.model.errors import InvalidArgument, NotFound, shown

_LONGEST_TEXT = 100_000
_HIGHEST_PRIORITY = 1_000_000
_LONGEST_URL = 2000


def check_labels(labels: object) -> tuple[str, ...]:
    """Return the labels without duplicates. One error lists all invalid labels.

    >>> check_labels(["baseline", "baseline"])
    ('baseline',)
    """
    from windlass.authoring.checks import options

    if problems := options.check_labels(labels):
        raise InvalidArgument.of([text for _, text in problems])
    return tuple(dict.fromkeys(labels))  # type: ignore[call-overload]  # checked above


def label_query(labels: object) -> str | None:
    """Return the query parameter that selects resources that have all the given labels.

    The argument is a list of labels or a single label.

    >>> label_query("baseline"), label_query(None)
    ('["baseline"]', None)
    """
    if not labels:
        return None
    import json

    return json.dumps(check_labels([labels] if isinstance(labels, str) else labels))


def check_config(config: object) -> dict[str, Any]:
    """Return a configuration as plain JSON data.

    If JSON cannot represent a value exactly, the error names the value.

    >>> check_config({"layers": (64, 32)})
    {'layers': [64, 32]}
    """
    from windlass.authoring.prepare.new_experiment import read_config

    plain, problems = read_config({} if config is None else config)
    if problems:
        raise InvalidArgument.of([text for _, text in problems])
    return plain


def check_priority(priority: Any) -> int:
    """Return the priority. Raise `InvalidArgument` if it is invalid."""
    is_whole = isinstance(priority, int) and not isinstance(priority, bool)
    if not is_whole or abs(priority) > _HIGHEST_PRIORITY:
        raise InvalidArgument(
            f"{shown(priority)} is not a valid priority.",
            hint=f"Write a whole number from -{_HIGHEST_PRIORITY:,} to {_HIGHEST_PRIORITY:,}.",
        )
    checked: int = priority
    return checked


def check_place(project: Any) -> int | str:
    """Return the id of a `wl.Project`, or a valid project name.

    For a `wl.Project`, the id is used instead of the name, because another program may rename the
    project before the request is sent.
    """
    from windlass.model.text import names

    if is_resource(project, "project"):
        project_id: int = project.id
        return project_id
    names.check(names.place_flaw(project), "project: ")
    checked: str = project
    return checked


def check_text(what: str, text: Any) -> str:
    if not isinstance(text, str):
        raise InvalidArgument(f"{what}: {shown(text)} is not a string.")
    if len(text) > _LONGEST_TEXT:
        raise InvalidArgument(
            f"{what}: {len(text)} characters are too many. The limit is {_LONGEST_TEXT}.",
            hint="Store it as a file: add_artifact(name, path)",
        )
    return text


def check_name(what: str, name: Any) -> str:
    from windlass.model.text.names import name_flaw

    if flaw := name_flaw(name, what):
        raise InvalidArgument(f"{what}: {flaw}.")
    checked: str = name
    return checked


def check_file_name(name: Any) -> None:
    check_name("artifact", name)
    if "/" in name or name in (".", ".."):
        raise InvalidArgument(
            f"artifact: {shown(name)} is not a valid file name.",
            hint=f"Write the name without folders: {shown(os.path.basename(name) or 'model.pt')}",
        )


def check_url(url: Any) -> str:
    import re

    if not isinstance(url, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*://\S+", url):
        guess = f"https://{url}" if isinstance(url, str) and "." in url else "https://..."
        is_path = isinstance(url, str) and url.startswith(("/", "~", "."))
        hint = f"Write the whole URL: {shown(guess)}"
        if is_path:
            hint = "To store a file with the experiment: add_artifact(name, path)"
        raise InvalidArgument(f"link: {shown(url)} is not a URL.", hint=hint)
    if url.lower().startswith(("javascript:", "vbscript:")):
        raise InvalidArgument(f"link: {shown(url)} is a script. A link must be an address.")
    if len(url) > _LONGEST_URL:
        raise InvalidArgument(f"link: a URL has at most {_LONGEST_URL} characters.")
    return url


def find_named(what: str, name: Any, entries: Sequence[Any]) -> Any:
    """Return the entry with the given name.

    If no entry has this name, the error suggests a similar name.
    """
    import difflib

    for entry in entries:
        if entry.name == name:
            return entry
    names = [entry.name for entry in entries]
    near = difflib.get_close_matches(str(name), names, n=1)
    hint = f"The names are: {', '.join(names[:10])}." if names else f"It has no {what}s."
    if near:
        hint = f"Did you mean {near[0]!r}?"
    raise NotFound(f"There is no {what} {shown(name)}.", hint=hint)
