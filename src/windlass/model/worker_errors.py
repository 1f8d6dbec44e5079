"""Errors from `wl.report` and similar calls that are also Python's built-in errors.

The same error can be caught as `wl.InvalidArgument` or, by programs that do not know Windlass, as
`TypeError`. In messages, each class has the name of its public base class. Programs import this
module only when an error occurs.

>>> error = WrongType("loss: 'low' is not a number.")
>>> error, isinstance(error, TypeError)
(InvalidArgument("loss: 'low' is not a number."), True)
"""

from __future__ import annotations

from windlass.model.errors import Conflict, InvalidArgument, NotFound, WindlassError

_kinds: dict[str, type[_Refusal]] = {}


class _Refusal(WindlassError):
    """An error that tracebacks show under the name of its public base class."""

    _own = ""

    def __init_subclass__(cls) -> None:
        public = cls.__bases__[1]
        cls._own = cls.__name__
        _kinds[cls._own] = cls
        cls.__name__ = cls.__qualname__ = public.__name__
        cls.__module__ = public.__module__

    def __reduce__(self) -> tuple[object, ...]:
        # Pickle looks up a class by name, but this name belongs to the public base class.
        return (_rebuild, (self._own, self.args, dict(self.__dict__)))


def _rebuild(own: str, args: tuple[object, ...], state: dict[str, object]) -> WindlassError:
    kind = _kinds[own]
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class WrongType(_Refusal, InvalidArgument, TypeError):
    """Raised if a function does not accept a value of this type."""


class NoSuchFile(_Refusal, NotFound, FileNotFoundError):
    """Raised if the path to read does not exist."""


class Changed(_Refusal, Conflict, RuntimeError):
    """Raised if a file was modified while it was being read."""
