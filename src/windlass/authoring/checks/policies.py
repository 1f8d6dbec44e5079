"""Parses the policies of a job, such as `restart_policy="ExitCode"`.

The names come from the enums in `model/job.py`, so a new policy needs no change here.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeVar

from windlass.authoring.checks.options import nearest
from windlass.model.errors import shown

E = TypeVar("E", bound=Enum)


def read_policy(kind: type[E], value: Any) -> E:
    """Convert a policy's name to a member of the enum `kind`.

    An enum member is returned unchanged.

    >>> from windlass.model.job import RestartPolicy
    >>> read_policy(RestartPolicy, "ExitCode")
    <RestartPolicy.EXIT_CODE: 'ExitCode'>
    >>> read_policy(RestartPolicy, "OnFailur")
    Traceback (most recent call last):
    ...
    ValueError: 'OnFailur' is not a valid value; did you mean 'OnFailure'?
    """
    names = [member.value for member in kind if member.value]
    if isinstance(value, str) and (value in names or isinstance(value, kind)):
        return kind(value)
    near = nearest(value, names) if isinstance(value, str) else None
    guess = f"did you mean {near!r}?" if near else f"choose one of: {', '.join(map(repr, names))}"
    raise ValueError(f"{shown(value)} is not a valid value; {guess}")
