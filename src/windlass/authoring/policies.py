"""Policies as users write them: the text of one of a few values, or the value itself."""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeVar

from windlass.authoring.checks import nearest
from windlass.model.errors import shown

E = TypeVar("E", bound=Enum)


def read_policy(kind: type[E], value: Any) -> E:
    """The policy that a text names.

    >>> from windlass.model.job import RestartPolicy
    >>> read_policy(RestartPolicy, "ExitCode")
    <RestartPolicy.EXIT_CODE: 'ExitCode'>
    >>> read_policy(RestartPolicy, "OnFailur")
    Traceback (most recent call last):
    ...
    ValueError: there is no 'OnFailur'; did you mean 'OnFailure'?
    """
    names = [each.value for each in kind if each.value]
    if isinstance(value, str) and (value in names or isinstance(value, kind)):
        return kind(value)
    near = nearest(value, names) if isinstance(value, str) else None
    guess = f"did you mean {near!r}?" if near else f"there are: {', '.join(map(repr, names))}"
    raise ValueError(f"there is no {shown(value)}; {guess}")
