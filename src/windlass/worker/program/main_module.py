"""The module `__main__` of a function's process.

A function of the script that the author ran finds this script in `__main__`. A script with the
guard `if __name__ == "__main__":` runs again, without the guarded part. For any other program, the
module contains the functions, classes and variables that were pickled with the call.
"""

from __future__ import annotations

import builtins
import os
import sys
from types import ModuleType

from windlass.worker.common.file_reads import retried
from windlass.worker.program.main_guard import parse, turn_off_guards

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pickle import Unpickler
    from typing import Any

LOADING = "__windlass_loading__"  # a name in `__main__` while the script runs again
_OWN = (
    *("__name__", "__doc__", "__file__", "__cached__", "__loader__"),
    *("__spec__", "__package__", "__path__", "__builtins__"),
)
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_DEEPEST = 50


class MainModule:
    """The `__main__` that a call needs. It replaces the `__main__` of this process."""

    def __init__(self, launch: Mapping[str, Any]) -> None:
        self._launch = launch
        self._wanted: Mapping[str, Any] = launch["executable"]["main"]
        self._roots: Sequence[str] = ()
        self._previous = sys.modules.get("__main__")  # its functions are still running
        self._module = ModuleType("__main__")
        names = vars(self._module)
        names["__builtins__"] = builtins
        if self._wanted.get("path"):
            self._take_place_of_script(names)
        self._own = {name: names[name] for name in _OWN if name in names}
        sys.modules["__main__"] = sys.modules["__mp_main__"] = self._module

    def run_script(self) -> None:
        """Run the script without its guarded part, if it has one."""
        if not self._wanted.get("is_run"):
            return
        names = vars(self._module)
        path = names["__file__"]
        if names["__package__"]:
            __import__(names["__package__"])
        tree = parse(retried(lambda: _read(path)))
        turn_off_guards(tree)
        names[LOADING] = True
        try:
            exec(compile(tree, path, "exec", dont_inherit=True), names)  # noqa: S102  # the author's code
        finally:
            names.pop(LOADING, None)

    def add_values(self, unpickler: Unpickler) -> None:
        """Add the names and attributes that were pickled after the call.

        A value that the script already computed here is kept, because other objects may refer to
        it. In any other case, the author's value replaces it.
        """
        names = vars(self._module)
        paths: Mapping[str, Any] = unpickler.load()
        self._roots = paths["roots"]
        while True:
            part = unpickler.load()
            if part is None:
                break
            for name, value in part["names"].items():
                if name not in names or not self._is_computed(names[name], value):
                    names[name] = value
            for thing, attributes in part["attributes"]:
                for name, value in attributes.items():
                    if not self._is_computed(vars(thing).get(name, self), value):
                        setattr(thing, name, value)
        for name in _OWN:  # functions carry the variables that they use, such as `__file__`
            names.pop(name, None)
        names.update(self._own)
        for dotted in paths["names"]:
            *outer, name = dotted.split(".")
            thing = self._module
            for part in outer:
                thing = getattr(thing, part, None)
            if name in getattr(thing, "__dict__", ()):
                setattr(thing, name, self._moved(vars(thing)[name]))

    def _is_computed(self, executed: object, value: object) -> bool:
        """Return whether the script computed the author's value here, possibly with other paths."""
        return is_same(executed, value) or is_same(executed, self._moved(value))

    def _moved(self, value: object) -> object:
        return moved(value, self._roots, self._launch["work"])

    def _take_place_of_script(self, names: dict[str, Any]) -> None:
        from importlib.machinery import ModuleSpec, SourceFileLoader

        path = os.path.normpath(os.path.join(self._launch["work"], self._wanted["path"]))
        module = self._wanted.get("module", "")
        loader = SourceFileLoader(module or "__main__", path)
        names.update(__file__=path, __cached__=None, __loader__=loader)
        if module:  # started as `python -m package.module`
            spec = ModuleSpec(module, loader, origin=path)
            spec.has_location = True
            names.update(__spec__=spec, __package__=spec.parent)
        first, *others = self._wanted.get("argv") or [""]
        sys.argv = [path if os.path.isabs(first) else first, *others]


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def is_same(executed: object, value: object, depth: int = 0) -> bool:
    """Return whether two values are certainly equal.

    The comparison calls no code of the user. For objects of other types than Python's own, the
    result is False unless they are identical.

    >>> is_same({"lr": [0.1, 3]}, {"lr": [0.1, 3]}), is_same(1, True), is_same(0.0, -0.0)
    (True, False, False)
    """
    if executed is value:
        return True
    kind = type(executed)
    if kind is not type(value) or depth > _DEEPEST:
        return False
    if kind in (float, complex):
        return repr(executed) == repr(value)  # distinguishes 0.0 from -0.0, and NaN equals NaN
    if kind in _PLAIN or _is_path(kind):
        return executed == value
    if kind in (list, tuple):
        return _are_same(executed, value, depth)  # type: ignore[arg-type]
    if kind is dict:
        # The order counts, too.
        return _are_same(list(executed.items()), list(value.items()), depth)  # type: ignore[attr-defined]
    if kind in (set, frozenset):
        is_plain = all(type(item) in _PLAIN for item in (*executed, *value))  # type: ignore[misc]
        return is_plain and {(type(x), x) for x in executed} == {(type(x), x) for x in value}  # type: ignore[attr-defined]
    return False


def moved(value: Any, roots: Iterable[str], work: str, depth: int = 0) -> Any:
    """Return a value in which paths below the author's project are paths in the restored copy.

    >>> moved({"data": "/home/ada/p/data"}, ["/home/ada/p"], "/work")
    {'data': '/work/data'}
    """
    kind = type(value)
    if kind is str or _is_path(kind):
        text = str(value)
        for root in roots:
            if text == root or text.startswith(root.rstrip("/") + "/"):
                return kind(work + text[len(root.rstrip("/")) :])
    elif depth < _DEEPEST and kind is dict:
        return {key: moved(item, roots, work, depth + 1) for key, item in value.items()}
    elif depth < _DEEPEST and kind in (list, tuple):
        return kind(moved(item, roots, work, depth + 1) for item in value)
    return value


def _is_path(kind: type) -> bool:
    pathlib = sys.modules.get("pathlib")
    return pathlib is not None and issubclass(kind, pathlib.PurePath)


def _are_same(executed: Sequence[object], values: Sequence[object], depth: int) -> bool:
    return len(executed) == len(values) and all(
        is_same(own, other, depth + 1)
        for own, other in zip(executed, values)  # noqa: B905  # Python 3.9
    )
