"""Finds the sources of functions and classes that a call carries by value.

Such functions come from notebook cells, interactive sessions, stdin or `python -c`. No file in the
snapshot contains their sources, so one file is added for each of them.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType
from typing import Any

import msgspec

from windlass.packaging.project_files.ignore import RECORDED
from windlass.packaging.project_files.project_root import is_installed

_FUNCTIONS = f"{RECORDED}/functions"


class FunctionSource(msgspec.Struct, frozen=True, kw_only=True):
    """A function's or class's source, and where Python finds it.

    `file` is the file name in the code object, such as `<stdin>`. `block` contains the lines as
    Python reads them, starting at `line`. Without a source, `text` is the bytecode and `block` is
    "".
    """

    name: str  # the qualified name, without "<locals>"
    text: str
    file: str = ""
    line: int = 0
    block: str = ""

    @property
    def ending(self) -> str:
        """The recorded file's extension: `py` for a source, `txt` for bytecode."""
        return "py" if self.block else "txt"


def find_sources(
    values: Iterable[Any], is_recorded: Callable[[str], bool]
) -> tuple[FunctionSource, ...]:
    """Return the sources of functions and classes that are not in a file accepted by `is_recorded`.

    >>> find_sources([find_sources], lambda path: True)
    ()
    >>> [source] = find_sources([eval("lambda: 1")], lambda path: False)
    >>> source.name, source.text.splitlines()[0]
    ('lambda', '# Python did not keep the source of lambda. Its bytecode:')
    """
    lacking: list[tuple[Any, list[CodeType]]] = []
    for value in values:
        codes = list(_codes_of(value))
        files = [code.co_filename for code in codes] + _file_of_class(value)
        if not _is_generated(value) and not any(_has_source(file, is_recorded) for file in files):
            lacking.append((value, codes))
    return _search(lacking) if lacking else ()


def source_files(sources: Iterable[FunctionSource]) -> dict[str, bytes]:
    """Return the snapshot files that record these sources, by path.

    >>> list(source_files([FunctionSource(name="<lambda>", text="f = lambda: 1", block="f")]))
    ['.windlass-code/functions/lambda.py']
    """
    files: dict[str, bytes] = {}
    for source in sources:
        plain = re.sub(r"[^\w.-]+", "", source.name)[:100].strip(".") or "function"
        path, number = f"{_FUNCTIONS}/{plain}.{source.ending}", 1
        data = source.text.encode("utf-8", "backslashreplace")
        while files.get(path, data) != data:
            number += 1
            path = f"{_FUNCTIONS}/{plain}-{number}.{source.ending}"
        files[path] = data
    return files


def dump_lines(sources: Iterable[FunctionSource]) -> bytes:
    """Pickle the source lines for the trial's tracebacks, or return b"" if there are none."""
    import pickle

    blocks = [(source.file, source.line, source.block) for source in sources if source.block]
    return pickle.dumps({"sources": blocks}, protocol=5) if blocks else b""


def _is_generated(value: Any) -> bool:
    """Return whether a module such as `dataclasses` generated this method of a class.

    Such a method needs no source of its own, because the source of its class determines it.
    """
    name, is_function = str(value.__qualname__), isinstance(value, FunctionType)
    if name.startswith("__create_fn__"):
        return True
    is_method = "." in name.rpartition("<locals>.")[2]
    return is_function and is_method and value.__code__.co_filename == "<string>"


def _file_of_class(value: Any) -> list[str]:
    """Return the file of a class's module, if it has one.

    The code of a class's methods may not name this file, for example if `dataclasses` generated the
    methods.
    """
    if not isinstance(value, type):
        return []
    file = getattr(sys.modules.get(value.__module__), "__file__", None)
    return [os.path.abspath(file)] if file else []


def _has_source(file: str, is_recorded: Callable[[str], bool]) -> bool:
    return os.path.isabs(file) and (is_installed(file) or is_recorded(file))


def _search(values: Iterable[tuple[Any, list[CodeType]]]) -> tuple[FunctionSource, ...]:
    from windlass.packaging.definition_search import DefinitionSearch, bytecode

    search = DefinitionSearch()
    located: list[FunctionSource] = []
    without: list[Any] = []
    for value, codes in values:
        definition = search.find(value, codes)
        if definition is None:
            without.append(value)
            continue
        file, line, block, text = definition
        source = FunctionSource(
            name=_plain_name(value), text=text, file=file, line=line, block=block
        )
        if source not in located:
            located.append(source)
    outer = [source for source in located if not any(_contains(o, source) for o in located)]
    names = {source.name for source in outer}
    # A class precedes its methods, which are part of it.
    for value in sorted(without, key=lambda value: len(value.__qualname__)):
        name = _plain_name(value)
        if not any(name.startswith(f"{other}.") for other in names):
            names.add(name)
            outer.append(FunctionSource(name=name, text=bytecode(value, name)))
    return tuple(outer)


def _contains(outer: FunctionSource, inner: FunctionSource) -> bool:
    if outer is inner or outer.file != inner.file:
        return False
    first, last = outer.line, outer.line + outer.block.count("\n")
    own_last = inner.line + inner.block.count("\n")
    is_inside = first <= inner.line and own_last <= last
    return is_inside and len(outer.block) > len(inner.block)


def _codes_of(value: Any) -> Iterator[CodeType]:
    """Yield a function's code object, or those of a class's methods."""
    if isinstance(value, FunctionType):
        yield value.__code__
        return
    for part in list(vars(value).values()):
        part = getattr(part, "fget", None) or getattr(part, "__func__", part)
        part = getattr(part, "__wrapped__", part)
        if isinstance(part, FunctionType) and part.__module__ == value.__module__:
            yield part.__code__


def _plain_name(value: Any) -> str:
    return str(value.__qualname__).replace("<locals>.", "").replace("<lambda>", "lambda")
