"""Pickles functions and classes of `__main__`, so that they belong to the trial's `__main__`.

If the trial runs the script again, they are pickled by name. The variables that they use are
pickled by value, because the program may have changed them. Anything else is pickled by value.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from operator import attrgetter
from types import CodeType, FunctionType
from typing import Any

from windlass.packaging.main_script import MainScript
from windlass.worker.program.pickle_values import MAIN_NAMES

_PLAIN = (type(None), bool, int, float, complex, str, bytes)


class Reduced:
    """An object that is pickled as the result of a call."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self._call = function, arguments

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self._call

    def __call__(self) -> None:
        """Do nothing. This method exists only because pickle requires a callable."""


class GlobalsOfMain(dict[str, Any]):
    """A namespace that is pickled as the namespace of the trial's `__main__`."""

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return vars, (_MAIN,)


_MAIN = Reduced(importlib.import_module, "__main__")


class MainReferences:
    """The functions and classes of `__main__` in one call's pickle."""

    def __init__(self, script: MainScript, can_pickle: Callable[[Any], bool]) -> None:
        self.script = script
        self.is_used = False
        self.globals = GlobalsOfMain(__name__="__main__")  # cloudpickle would fill an empty one
        self._can_pickle = can_pickle
        self._main = sys.modules.get("__main__")
        self._visited: dict[int, Any] = {}
        self._to_visit: list[Any] = []
        self._sent: set[str] = set()

    def owns(self, function: FunctionType) -> bool:
        """Return whether a function's global variables are those of `__main__`."""
        is_own = function.__globals__.get("__name__") in MAIN_NAMES
        self.is_used |= is_own
        return is_own

    def reduce(self, thing: Any) -> tuple[Any, ...] | None:
        """Return how to pickle an object by its name in `__main__`, or None to use its value."""
        is_class = isinstance(thing, type)
        if not is_class and type(thing) is not FunctionType and not _is_wrapper(thing):
            return None
        if getattr(thing, "__module__", None) not in MAIN_NAMES:
            return None
        self.is_used = True
        name = self._name_in_script(thing)
        if name is None:
            return _reduce_cached_function(thing)
        self._visit(thing)
        reference = Reduced(attrgetter(name), _MAIN)
        if not is_class:
            return reference.__reduce__()
        from cloudpickle import cloudpickle

        # Results with this class then find the same class here, as for classes sent by value.
        tracker = cloudpickle._get_or_create_tracker_id(thing)
        return cloudpickle._lookup_class_or_track, (tracker, reference)

    def parts(self, by_value: list[Any]) -> Iterator[dict[str, Any] | None]:
        """Yield what follows the call's pickle, in the order of pickling.

        Pickling a part may add to `by_value` and to the objects pickled by name. The last part is
        None.
        """
        yield {"names": self.script.source.from_file, "roots": self.script.roots}
        seen = 0
        while self._to_visit or seen < len(by_value):
            names = {
                value.__qualname__: value
                for value in by_value[seen:]
                if value.__module__ in MAIN_NAMES and self._has(value)
            }
            seen = len(by_value)
            attributes: list[tuple[Any, dict[str, Any]]] = []
            while self._to_visit:
                thing: Any = self._to_visit.pop()
                names.update(self._variables(thing))
                changeable = dict(self._attributes(thing))
                if changeable or isinstance(thing, type):  # results may have any of these classes
                    attributes.append((thing, changeable))
            yield {"names": names, "attributes": attributes}
        yield None

    def _has(self, thing: Any) -> bool:
        """Return whether `__main__` has a function or class under its own name."""
        value: object = getattr(self._main, thing.__qualname__, None)
        return value is thing

    def _name_in_script(self, thing: Any) -> str | None:
        """Return the name under which a script that runs again has the same object, or None."""
        qualname = getattr(thing, "__qualname__", None)
        if not self.script.is_run or not isinstance(qualname, str):
            return None
        if qualname.partition(".")[0] not in self.script.source.stable:
            return None
        value: Any = self._main
        for part in qualname.split("."):
            value = getattr(value, part, None)
        if any(code not in self.script.source.codes for code in self._own_codes(thing)):
            return None  # the file has changed, or the program has replaced a method
        if value is thing:
            return qualname
        return f"{qualname}.__wrapped__" if getattr(value, "__wrapped__", None) is thing else None

    def _own_codes(self, thing: Any) -> Iterator[CodeType]:
        """Yield the code of the script's functions in a class, function or wrapper."""
        file = os.path.basename(self.script.path)
        for function in functions_in(thing):
            if os.path.basename(function.__code__.co_filename) == file:
                yield function.__code__

    def _visit(self, thing: Any) -> None:
        if id(thing) in self._visited:
            return
        self._visited[id(thing)] = thing
        self._to_visit.append(thing)
        for base in thing.__mro__[1:] if isinstance(thing, type) else ():
            if base.__module__ in MAIN_NAMES and self._name_in_script(base):
                self._visit(base)

    def _variables(self, thing: Any) -> Iterator[tuple[str, Any]]:
        """Yield the variables of `__main__` that an object uses and that have to be sent."""
        from cloudpickle import cloudpickle

        for function in functions_in(thing):
            if not self.owns(function):
                continue
            for name in cloudpickle._extract_code_globals(function.__code__):
                if name.startswith("__") or name in self._sent or name not in function.__globals__:
                    continue
                self._sent.add(name)
                value = function.__globals__[name]
                if not self._is_unchanged(name, value):
                    yield name, value

    def _is_unchanged(self, name: str, value: Any) -> bool:
        """Return whether a variable is a function or class of the script under its own name."""
        if name not in self.script.source.stable:
            return False
        is_definition = isinstance(value, (type, FunctionType)) or _is_wrapper(value)
        if not is_definition or getattr(value, "__module__", None) not in MAIN_NAMES:
            return False
        if self._name_in_script(value) != name:
            return False
        self._visit(value)
        return True

    def _attributes(self, thing: Any) -> Iterator[tuple[str, Any]]:
        """Yield a class's or function's attributes that the program may have changed."""
        if isinstance(thing, type) and "_member_map_" in vars(thing):
            return  # members of an enumeration cannot be changed
        for name, value in list(vars(thing).items()):
            if name.startswith(("__", "_abc_")) or value is thing:
                continue
            if isinstance(value, FunctionType):
                is_method = value.__qualname__ == f"{thing.__qualname__}.{name}"
                if isinstance(thing, type) and is_method:
                    continue
            elif hasattr(value, "__get__") or _is_wrapper(thing):
                continue
            # Libraries keep their own objects in private attributes.
            if _is_plain(value) or (not name.startswith("_") and self._can_pickle(value)):
                yield name, value


def functions_in(thing: Any, depth: int = 0) -> Iterator[FunctionType]:
    """Yield the functions in a class, function or wrapper, such as methods and closures.

    >>> class Model:
    ...     @property
    ...     def size(self):
    ...         return 1
    >>> [function.__name__ for function in functions_in(Model)]
    ['size']
    """
    parts: list[Any] = []
    if isinstance(thing, FunctionType):
        yield thing
        parts = [_content(cell) for cell in thing.__closure__ or ()]
        parts = [part for part in parts if isinstance(part, FunctionType) or _is_wrapper(part)]
    elif isinstance(thing, type):
        for value in list(vars(thing).values()):
            accessors = [getattr(value, name, None) for name in ("fget", "fset", "fdel", "func")]
            parts += [value, getattr(value, "__func__", None), *accessors]
        inner = f"{thing.__qualname__}."
        parts = [
            part
            for part in parts
            if isinstance(part, FunctionType)
            or (isinstance(part, type) and part.__qualname__.startswith(inner))
        ]
    if depth < 10:
        wrapped = None if isinstance(thing, type) else vars(thing).get("__wrapped__")
        for part in (*parts, wrapped):
            if part is not None and part is not thing:
                yield from functions_in(part, depth + 1)


def _reduce_cached_function(thing: Any) -> tuple[Any, ...] | None:
    """Return how to pickle a function with `functools.lru_cache`, which Python pickles by name.

    Return None for any other object.
    """
    if not isinstance(thing, functools._lru_cache_wrapper):
        return None
    settings = thing.cache_parameters()
    decorator = Reduced(functools.lru_cache, settings["maxsize"], settings["typed"])
    return decorator, (thing.__wrapped__,)


def _is_wrapper(thing: Any) -> bool:
    """Return whether an object replaces the function that it wraps, as `wl.run` returns one."""
    names = getattr(thing, "__dict__", None)
    return type(names) is dict and "__wrapped__" in names and "__qualname__" in names


def _is_plain(value: Any, depth: int = 0) -> bool:
    if isinstance(value, (list, tuple, set, frozenset)):
        return depth < 10 and all(_is_plain(item, depth + 1) for item in value)
    if type(value) is dict:
        return depth < 10 and all(_is_plain(item, depth + 1) for item in value.items())
    return type(value) in _PLAIN


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None  # the variable has no value yet
