"""What a program inside a trial is refused with: the public errors, as Python's own kinds too.

`except wl.InvalidArgument` catches what `wl.report` and `wl.save_checkpoint` refuse, and so does
the `except TypeError` of a program that knows nothing of ours. They go by the name of the public
error that they are. Programs import this when something is refused, and not before.

>>> error = WrongType("loss: 'low' is not a number.")
>>> error, isinstance(error, TypeError)
(InvalidArgument("loss: 'low' is not a number."), True)
"""

from __future__ import annotations

from windlass.model.errors import Conflict, InvalidArgument, NotFound, WindlassError

_kinds: dict[str, type[_Refusal]] = {}


class _Refusal(WindlassError):
    """Goes by the name of its public base: tracebacks and records say what users know."""

    _own = ""

    def __init_subclass__(cls) -> None:
        public = cls.__bases__[1]
        cls._own = cls.__name__
        _kinds[cls._own] = cls
        cls.__name__ = cls.__qualname__ = public.__name__
        cls.__module__ = public.__module__

    def __reduce__(self) -> tuple[object, ...]:
        # A pickle finds a class by its name: here it would find the public one.
        return (_rebuild, (self._own, self.args, dict(self.__dict__)))


def _rebuild(own: str, args: tuple[object, ...], state: dict[str, object]) -> WindlassError:
    kind = _kinds[own]
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class WrongType(_Refusal, InvalidArgument, TypeError):
    """A value has a type that the function does not take."""


class NoSuchFile(_Refusal, NotFound, FileNotFoundError):
    """There is nothing at a path that is to be read."""


class Changed(_Refusal, Conflict, RuntimeError):
    """Something was written to while it was read."""
