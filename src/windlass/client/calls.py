"""Functions that users call themselves: what they are told when a call of theirs goes wrong."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

from windlass.model.errors import InvalidArgument, WindlassError

P = ParamSpec("P")
R = TypeVar("R")


def users_call(where: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function that tells which argument was meant, and whose errors come without our frames.

    >>> @users_call("exp.search")
    ... def search(space, *, trials=50): ...
    >>> search({}, n_trials=5)
    Traceback (most recent call last):
    windlass.InvalidArgument: exp.search: there is no option 'n_trials'; did you mean 'trials'?
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        known = _arguments_of(function)

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                unknown = [name for name in kwargs if name not in known]
                if unknown:
                    raise _refusal(unknown, known, where)
                return function(*args, **kwargs)
            except (WindlassError, KeyboardInterrupt) as error:
                failure = error.with_traceback(None)  # our frames tell users nothing
            raise failure

        return checked

    return decorate


def call_methods_after(public: type, *parts: type) -> None:
    """Have the methods of the parts that a public class is made of bear its name.

    Python tells it in a TypeError: `Trial.stop() got an unexpected keyword argument`.
    """
    for part in parts:
        for name, each in vars(part).items():
            if isinstance(each, FunctionType) and each.__qualname__ == f"{part.__name__}.{name}":
                inner = getattr(each, "__wrapped__", each)
                for function in (each, inner):
                    # Both, so that it is found by them, as pickle does.
                    function.__module__ = public.__module__
                    function.__qualname__ = f"{public.__name__}.{name}"


def _arguments_of(function: Any) -> list[str]:
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return [name for name in names if name != "self"]


def _refusal(unknown: list[str], known: list[str], where: str) -> InvalidArgument:
    from windlass.authoring.checks import unknown_option

    return InvalidArgument.of([unknown_option(name, known)[1] for name in unknown], where=where)
