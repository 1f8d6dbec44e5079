"""Finds the part of a value that cannot be pickled.

This module uses only the standard library and runs under Python 3.9 and newer, because both the
submitting process and the replica's process import it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

_DEPTH = 20
_ITEMS = 1000
_SECONDS = 5.0

Dumps = Callable[[Any], Any]


def find_unpicklable(value: Any, dumps: Dumps, name: str) -> str:
    """Find the most deeply nested part that `dumps` rejects. Return its path, kind and reason.

    `name` is the whole value's name, with which the path starts.

    >>> import pickle, threading
    >>> find_unpicklable({"model": [1, threading.Lock()]}, pickle.dumps, "result")
    "result['model'][1] (a _thread.lock): cannot pickle '_thread.lock' object"
    """
    deadline = time.monotonic() + _SECONDS
    error = refusal(value, dumps)
    if error is None:
        return f"{name} ({describe_kind(value)})"
    seen = {id(value)}
    for _ in range(_DEPTH):
        for part_name, part in _parts(value, name):
            if id(part) in seen or time.monotonic() > deadline:
                continue
            seen.add(id(part))
            part_error = refusal(part, dumps)
            if part_error is not None:
                value, name, error = part, part_name, part_error
                break
        else:
            break
    return f"{name} ({describe_kind(value)}): {_first_line(error)}"


def refusal(value: Any, dumps: Dumps) -> BaseException | None:
    """Return the exception that `dumps` raises for a value, or None if it can be pickled."""
    try:
        dumps(value)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - pickling runs the code of the value
        return error
    return None


def describe_kind(value: Any) -> str:
    """Describe a value's type in words.

    >>> describe_kind(1.5), describe_kind(describe_kind)
    ('a float', "the function 'describe_kind'")
    """
    kind = type(value)
    if kind.__name__ in ("function", "type", "builtin_function_or_method"):
        word = "class" if kind.__name__ == "type" else "function"
        return f"the {word} {getattr(value, '__qualname__', '?')!r}"
    if kind.__name__ == "module":
        return f"the module {getattr(value, '__name__', '?')!r}"
    module = kind.__module__
    full = kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"
    article = "an" if full.lstrip("_")[:1].lower() in "aeiou" else "a"
    return f"{article} {full}"


def _parts(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the values that a value contains, each with its path, such as `result['model']`."""
    if isinstance(value, dict):
        for key, part in list(value.items())[:_ITEMS]:
            yield f"{name}[{_short(key)}]", part
        for key in list(value)[:_ITEMS]:
            yield f"the key {_short(key)} of {name}", key
    elif isinstance(value, (list, tuple)):
        fields = getattr(value, "_fields", None)
        for index, part in enumerate(value[:_ITEMS]):
            if isinstance(fields, tuple) and index < len(fields):
                yield f"{name}.{fields[index]}", part
            else:
                yield f"{name}[{index}]", part
    elif isinstance(value, (set, frozenset)):
        for part in list(value)[:_ITEMS]:
            yield f"an element of {name}", part
    if type(value).__name__ == "function" and hasattr(value, "__code__"):
        yield from function_parts(value, name)
    elif type(value).__name__ == "method":
        yield f"{name}.__self__", value.__self__
    elif type(value).__name__ == "partial":
        yield f"{name}.func", value.func
        yield f"{name}.args", value.args
        yield f"{name}.keywords", value.keywords
    yield from _attributes(value, name)


def _attributes(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, type):
        return
    state = getattr(value, "__dict__", None)
    if isinstance(state, dict):
        for key, part in list(state.items())[:_ITEMS]:
            yield f"{name}.{key}", part
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else tuple(slots)[:_ITEMS]:
            if hasattr(value, slot):  # otherwise the slot was never set
                yield f"{name}.{slot}", getattr(value, slot)


def function_parts(function: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield what is pickled with a function: defaults, closure variables and used globals."""
    code = function.__code__
    for variable, cell in zip(code.co_freevars, function.__closure__ or ()):  # noqa: B905 - 3.9
        yield f"the closure variable {variable!r} of {name}", _content(cell)
    names = _global_names(code)
    for key in sorted(names & function.__globals__.keys()):
        yield f"the global {key!r} used by {name}", function.__globals__[key]
    positional = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    for key, part in zip(positional[len(positional) - len(defaults) :], defaults):  # noqa: B905 - 3.9
        yield f"the default of {key!r} of {name}", part
    for key, part in (function.__kwdefaults__ or {}).items():
        yield f"the default of {key!r} of {name}", part


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None  # the variable has no value yet


def _global_names(code: Any) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            names |= _global_names(constant)
    return names


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a repr of user code may raise any error
        return f"<{type(value).__qualname__}>"
    return text if len(text) <= 60 else text[:59] + "…"


def _first_line(error: BaseException) -> str:
    try:
        text = str(error).strip()
    except Exception:  # noqa: BLE001 - a __str__ of user code may raise any error
        text = ""
    line = text.partition("\n")[0][:300]
    return line or type(error).__name__
