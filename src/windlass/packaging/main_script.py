"""Reads the script that this process runs, and decides whether a trial can run it again.

A trial of a function in `__main__` runs the script again if this has no effect beyond definitions.
This is the case if the script has the guard `if __name__ == "__main__":`, all calls of decorated
functions are below it, and the file has not changed since it was started.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from windlass.model.job import MainModule

if TYPE_CHECKING:
    import ast

_HARMLESS = frozenset({"options", "job"})  # methods of a decorated function that start nothing
_MOST_WORDS, _LONGEST_WORD = 10_000, 1_000_000
_STARTING = frozenset({"submit", "create_experiment"})  # these start trials of any object


@dataclass(frozen=True)
class ScriptSource:
    """The facts about a script's source that decide how a trial uses the script."""

    guards: tuple[tuple[int, int], ...] = ()  # the first and last lines of the guarded parts
    codes: frozenset[CodeType] = frozenset()  # of all functions outside of the guarded parts
    stable: frozenset[str] = frozenset()  # names that only the part outside of guards assigns
    from_file: tuple[str, ...] = ()  # names whose values were computed from `__file__`
    called: frozenset[str] = frozenset()  # names of the objects called outside of guards
    starts: bool = False  # whether the part outside of guards seems to start trials


@dataclass(frozen=True)
class MainScript:
    """The script that this process runs, if a snapshot contains it."""

    path: str = ""  # relative to the snapshot's root; "" if the snapshot has no script
    root: str = ""
    file: str = ""  # as `__file__` of the script
    source: ScriptSource = ScriptSource()
    is_run: bool = False  # whether a trial runs the script again

    def module(self) -> MainModule:
        """Return the specification of the trial's `__main__`."""
        spec = getattr(sys.modules.get("__main__"), "__spec__", None)
        return MainModule(
            path=self.path,
            module=getattr(spec, "name", "") if self.path else "",
            argv=tuple(map(_text, sys.argv[:_MOST_WORDS])) if self.path else (),
            is_run=self.is_run,
        )

    @property
    def roots(self) -> tuple[str, ...]:
        """The project's path, in all spellings that the script may have computed."""
        # In a trial, `__file__` may be in the trial's copy of the project.
        files = (self.file, getattr(sys.modules.get("__main__"), "__file__", None) or "")
        ending = f"/{self.path}"
        spelled = [file[: -len(ending)] for file in files if file.endswith(ending)]
        return tuple(dict.fromkeys(filter(None, (self.root, *spelled))))


def find_main_script(
    function: Callable[..., Any] | None, root: Path, has_file: Callable[[str], bool]
) -> MainScript:
    """Return this process's script, or an empty `MainScript` if the snapshot lacks the script.

    `function` is the call's function, and `has_file` tells which files the snapshot contains.
    """
    main = sys.modules.get("__main__")
    code = getattr(function, "__code__", None)
    is_of_main = getattr(function, "__module__", None) == "__main__"
    # In a trial that does not run the script again, the function knows the author's own file.
    own = getattr(code, "co_filename", None) if is_of_main else None
    for file in (getattr(main, "__file__", None), own):
        if isinstance(file, str) and os.path.isfile(file) and has_file(file):
            break
    else:
        return MainScript()
    base, stat = os.path.realpath(root), os.stat(file)
    source = _read_source(file, (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino))
    return MainScript(
        path=os.path.relpath(os.path.realpath(file), base),
        root=base,
        file=os.path.abspath(file),
        source=source,
        is_run=_can_run_again(source, vars(main) if main is not None else {}),
    )


def _can_run_again(source: ScriptSource, names: dict[str, Any]) -> bool:
    if not source.guards or source.starts:
        return False
    decorated = (name for name in source.called if hasattr(names.get(name), "starmap"))
    return not any(decorated) and _is_call_guarded(source, names)


def _is_call_guarded(source: ScriptSource, names: dict[str, Any]) -> bool:
    """Return whether the line that the script executes now is in a guarded part.

    If this thread does not execute the script, the result is True.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        code = frame.f_code
        is_file = not code.co_filename.startswith("<")  # and not an interactive prompt
        if code.co_name == "<module>" and is_file and frame.f_globals is names:
            line = frame.f_lineno
            return any(first <= line <= last for first, last in source.guards)
        frame = frame.f_back
    return True


@lru_cache(maxsize=4)
def _read_source(file: str, _version: tuple[int, ...]) -> ScriptSource:
    try:
        with open(file, "rb") as stream:
            text = stream.read()
        # Parsing takes milliseconds, and most short scripts need none of it.
        if b"__name__" not in text and b"__file__" not in text:
            return ScriptSource()
        return analyze(text)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return ScriptSource()


def analyze(text: bytes) -> ScriptSource:
    """Analyze a script's source.

    >>> source = analyze(b"lr = 1\\nif __name__ == '__main__':\\n    lr = 2\\n    train()")
    >>> source.guards, source.stable, source.called
    (((3, 4),), frozenset(), frozenset())
    >>> analyze(b"root = __file__\\nclass Config:\\n    data = root + '/x'").from_file
    ('root', 'Config.data')
    """
    import ast

    from windlass.worker.program.main_guard import eager_nodes, guards, parse

    tree = parse(text)
    guarded = guards(tree)
    lines = tuple((guard.body[0].lineno, guard.body[-1].end_lineno or 0) for guard in guarded)
    changed = {name for guard in guarded for node in guard.body for name in _assigned(node)}
    changed |= {
        name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names
    }
    for guard in guarded:
        guard.body = [ast.copy_location(ast.Pass(), guard.body[0])]
    calls = [node for node in eager_nodes(tree) if isinstance(node, ast.Call)]
    called = [name for call in calls if (name := _called_name(call.func))]
    methods = (call.func.attr for call in calls if isinstance(call.func, ast.Attribute))
    return ScriptSource(
        guards=lines,
        codes=frozenset(_codes(compile(tree, "<script>", "exec", dont_inherit=True))),
        stable=frozenset(name for node in tree.body for name in _assigned(node)) - changed,
        from_file=tuple(_computed_from_file(tree.body)),
        called=frozenset(called),
        starts=any(method in _STARTING for method in methods),
    )


def _called_name(function: ast.expr) -> str:
    """Return the name of the object that an expression calls: `a` for `a(...)` and `a.b(...)`."""
    import ast

    if isinstance(function, ast.Attribute) and function.attr in _HARMLESS:
        return ""
    while isinstance(function, ast.Attribute):
        function = function.value
    return function.id if isinstance(function, ast.Name) else ""


def _assigned(statement: ast.AST) -> Iterator[str]:
    """Yield the module's names that a top-level statement assigns."""
    import ast

    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield statement.name
        return
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        for alias in statement.names:
            yield alias.asname or alias.name.partition(".")[0]
    elif isinstance(statement, ast.Name) and not isinstance(statement.ctx, ast.Load):
        yield statement.id
    elif not isinstance(statement, ast.Lambda):
        for child in ast.iter_child_nodes(statement):
            yield from _assigned(child)


def _computed_from_file(statements: Iterable[ast.stmt], above: Iterable[str] = ()) -> list[str]:
    """Return the names that assignments compute from `__file__`, in order.

    Attributes of classes are included, as in `Config.root`. For the statements of a class, `above`
    has the names outside of the class.
    """
    import ast

    names: dict[str, None] = {}
    for statement in statements:
        known = {"__file__", *above, *names}
        if isinstance(statement, ast.ClassDef):
            inner = _computed_from_file(statement.body, known)
            names.update(dict.fromkeys(f"{statement.name}.{name}" for name in inner))
        value = getattr(statement, "value", None)
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and value is not None:
            used = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
            if used & known:
                names.update(dict.fromkeys(_assigned(statement)))
    return list(names)


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _text(word: object) -> str:
    return str(word)[:_LONGEST_WORD].replace("\0", "").encode("utf-8", "replace").decode()
