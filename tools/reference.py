"""Write docs/sdk.md: every public name of `windlass`, as its docstring has it.

    make docs

A test compares the page with what this would write.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import windlass as wl

PAGE = Path(__file__).parent.parent / "docs" / "sdk.md"

_HEAD = """\
# Reference

Every public name of `import windlass as wl`, made from the docstrings by `make docs`. The \
functions that ask a server are the methods of [`wl.Client`](#wlclient), too: `wl.get_trial(3)` \
is `wl.Client().get_trial(3)`.
"""

# In which part a name stands; what is in none of them stands where its kind puts it.
_WRITING = (
    "run", "Function", "Job", "JobGroup", "PythonFunction", "PythonScript", "PythonModule",
    "Command", "Container", "Raw", "package", "Packaged", "Local", "Ray", "Kubernetes",
    "TokenAuthentication", "KubeConfigFileAuthentication",
    "uniform", "loguniform", "randint", "choice",
)  # fmt: skip


def page() -> str:
    """The whole page."""
    parts: dict[str, list[str]] = {
        "Writing jobs": [name for name in _WRITING if name in wl.__all__],
        "Asking and managing": [],
        "Inside a trial": [],
        "What you get": [],
        "Errors": [],
    }
    for name in wl.__all__:
        if name not in _WRITING and not name.startswith("_"):
            parts[_part_of(getattr(wl, name))].append(name)
    lines = [_HEAD]
    for title, names in parts.items():
        links = ", ".join(f"[`{name}`](#wl{name.lower()})" for name in names)
        lines.append(f"**{title}**: {links}\n")
    for title, names in parts.items():
        lines.append(f"## {title}\n")
        for name in names:
            lines += _entry(name, getattr(wl, name))
    return "\n".join(lines).rstrip() + "\n"


def _part_of(thing: Any) -> str:
    if isinstance(thing, type):
        return "Errors" if issubclass(thing, BaseException) else "What you get"
    is_inside = str(getattr(thing, "__module__", "")).startswith("windlass.worker")
    return "Inside a trial" if is_inside else "Asking and managing"


def _entry(name: str, thing: Any) -> Iterator[str]:
    yield f"### wl.{name}\n"
    if not isinstance(thing, type):
        yield _signature(f"wl.{name}", thing)
        yield _prose(thing)
        return
    if not issubclass(thing, BaseException):
        signature = _constructor(name, thing)
        if signature:
            yield signature
    else:
        bases = ", ".join(f"`{_spelt(base)}`" for base in thing.__bases__)
        yield f"A kind of {bases}.\n"
    yield _prose(thing)
    if issubclass(thing, BaseException):
        return
    if name == "Client":
        yield "Its methods are the functions above" + _own_of_client(thing)
        return
    bases = _public_bases(thing)
    if bases:
        link = f"[`wl.{bases[0].__name__}`](#wl{bases[0].__name__.lower()})"
        yield f"It has what {link} has, and:\n"
    properties, methods = _members(thing)
    if properties:
        yield "| | |\n|---|---|"
        for member, value in properties:
            yield f"| `.{member}` | {_first_line(value)} |"
        yield ""
        for member, value in properties:
            rest = _after_first(value)
            if rest:
                yield f"**`.{member}`**\n\n{rest}\n"
    for member, value in methods:
        yield f"#### {name}.{member}\n"
        yield _signature(f".{member}", value, is_method=True)
        yield _prose(value)


def _own_of_client(kind: type) -> str:
    others = [
        member for member, _ in _members(kind)[1] if not hasattr(wl, member) and member != "over"
    ]
    return f", and `{'`, `'.join(others)}`.\n" if others else ".\n"


def _members(kind: type) -> tuple[list[tuple[str, Any]], list[tuple[str, Any]]]:
    """The public properties and methods, those of mixins too, in the order they are written in.

    What another public class has stands there.
    """
    found: dict[str, Any] = {}
    elsewhere = {each for base in _public_bases(kind) for each in base.__mro__}
    for base in kind.__mro__:
        if base in elsewhere or not base.__module__.startswith("windlass"):
            continue
        for member, value in vars(base).items():
            if not member.startswith("_"):
                found.setdefault(member, value)
    properties = [(m, v) for m, v in found.items() if isinstance(v, property) and v.__doc__]
    methods = [
        (m, v.__func__ if isinstance(v, (classmethod, staticmethod)) else v)
        for m, v in found.items()
        if inspect.isfunction(v) or isinstance(v, (classmethod, staticmethod))
    ]
    return properties, [(m, v) for m, v in methods if inspect.getdoc(v)]


def _public_bases(kind: type) -> list[type]:
    return [base for base in kind.__mro__[1:] if getattr(wl, base.__name__, None) is base]


def _constructor(name: str, kind: type) -> str:
    """How one is made, if users make it: its own `__init__`, or the fields of a struct."""
    if name in _WRITING or name == "Client":
        return _signature(f"wl.{name}", kind)
    return ""


def _signature(name: str, thing: Any, *, is_method: bool = False) -> str:
    """The call, one line if it fits in a hundred characters, else an argument a line."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    parameters = list(signature.parameters.values())
    if is_method and parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    texts, is_keyword = [], False
    for each in parameters:
        if each.kind is each.KEYWORD_ONLY and not is_keyword:
            texts.append("*")
            is_keyword = True
        is_keyword = is_keyword or each.kind is each.VAR_POSITIONAL
        texts.append(_parameter(each))
    answer = signature.return_annotation
    after = "" if answer is inspect.Signature.empty or isinstance(thing, type) else _typed(answer)
    after = f" -> {after}" if after else ""
    line = f"{name}({', '.join(texts)}){after}"
    if len(line) > 100:
        line = f"{name}(\n" + "".join(f"    {text},\n" for text in texts) + f"){after}"
    return f"```text\n{line}\n```\n"


def _parameter(each: inspect.Parameter) -> str:
    stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
    kind = "" if each.annotation is each.empty else f": {_typed(each.annotation)}"
    if each.default is each.empty:
        return f"{stars}{each.name}{kind}"
    default = repr(each.default)
    shown = default if re.fullmatch(r"[\w.'\"\-+(){}\[\], ]+", default) else "..."
    return f"{stars}{each.name}{kind}{' = ' if kind else '='}{shown}"


def _typed(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    text = text or str(annotation)
    return re.sub(r"\b(?:windlass|typing|collections)(?:\.\w+)*\.(?=\w)", "", text)


def _spelt(kind: type) -> str:
    return f"wl.{kind.__name__}" if hasattr(wl, kind.__name__) else kind.__name__


def _prose(thing: Any) -> str:
    """A docstring as Markdown: its arguments become a list, examples with prompts a block."""
    text = inspect.getdoc(thing) or ""
    if isinstance(thing, type):
        text = inspect.cleandoc(vars(thing).get("__doc__") or "")
    before, has_arguments, arguments = text.partition("\nArgs:\n")
    shown = _doctests_fenced(before.strip())
    if not has_arguments:
        return shown + "\n"
    items = re.split(r"\n(?=    \S)", arguments.rstrip())
    listed = []
    for item in items:
        name, _, said = " ".join(item.split()).partition(": ")
        listed.append(f"- `{name}`: {said}")
    return shown + "\n\n" + "\n".join(listed) + "\n"


def _doctests_fenced(text: str) -> str:
    return re.sub(
        r"(?:^|(?<=\n\n))(>>> .*?)(?=\n\n|\Z)",
        lambda found: f"```text\n{found[1]}\n```",
        text,
        flags=re.DOTALL,
    )


def _first_line(value: property) -> str:
    first = (inspect.getdoc(value) or "").split("\n\n")[0]
    return " ".join(first.split()).replace("|", "\\|")


def _after_first(value: property) -> str:
    return _doctests_fenced("\n\n".join((inspect.getdoc(value) or "").split("\n\n")[1:]).strip())


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.stderr.write(f"{PAGE.name}: {len(wl.__all__) - 1} names\n")
