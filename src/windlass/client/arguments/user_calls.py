"""Improves the errors from invalid calls of public functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from windlass.model.errors import InvalidArgument, WindlassError

P = ParamSpec("P")
R = TypeVar("R")


def users_call(where: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a public function so that its errors help users.

    The error for an unknown option suggests a similar option. Tracebacks omit Windlass frames.

    >>> @users_call("exp.search")
    ... def search(space, *, trials=50): ...
    >>> search({}, n_trials=5)
    Traceback (most recent call last):
    windlass.InvalidArgument: exp.search: there is no option 'n_trials'; did you mean 'trials'?
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        options = _arguments_of(function)

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                unknown = [name for name in kwargs if name not in options]
                if unknown:
                    raise _refusal(unknown, options, where)
                return function(*args, **kwargs)
            except (WindlassError, KeyboardInterrupt) as error:
                failure = error.with_traceback(None)  # hide Windlass frames from users
            raise failure

        return checked

    return decorate


def _arguments_of(function: Any) -> list[str]:
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return [name for name in names if name != "self"]


def _refusal(unknown: list[str], options: list[str], where: str) -> InvalidArgument:
    from windlass.authoring.checks.options import unknown_option

    return InvalidArgument.of([unknown_option(name, options)[1] for name in unknown], where=where)
