"""Converts arguments to command lines, and reads parameters from command lines."""

from __future__ import annotations

import numbers
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from windlass.authoring.checks.options import Problem, find_text_flaw, format_key
from windlass.authoring.public.executables import Raw
from windlass.model.errors import shown

_WHOLE = re.compile(r"[+-]?(0|[1-9]\d*)", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][+-]?\d+)?", re.ASCII)
_SETTING = re.compile(r"\+{0,2}([A-Za-z_][\w./-]*)=(.*)", re.ASCII | re.DOTALL)
_OPTION = re.compile(r"--?([A-Za-z_][\w.-]*)(?:=(.*))?", re.ASCII | re.DOTALL)
_EXACT = 2**53  # JSON readers lose digits of numbers above this
_LONGEST_EXACT = 17  # characters, including the sign
_FLAG = re.compile(r"\w[\w.-]*")
DEEPEST = 20  # levels of nested mappings
_MOST_DIGITS = 1000
_MOST_WORDS = 9_000  # excluding the words of the command itself


def command_line(arguments: Mapping[str, Any] | Sequence[Any]) -> list[str]:
    """Convert arguments to command-line words. In a list, only numbers are converted.

    >>> command_line(["--lr", 0.1, "data"])
    ['--lr', '0.1', 'data']

    In a mapping, each entry becomes a flag, with its name unchanged. A boolean becomes the flag or
    its `--no-` form, as in `argparse.BooleanOptionalAction`. A list repeats the flag. The names in
    a nested mapping are joined with dots. `None` omits the flag.

    >>> command_line({"lr": 0.1, "amp": True, "cache": False, "tag": ["a", "b"], "seed": None})
    ['--lr=0.1', '--amp', '--no-cache', '--tag=a', '--tag=b']
    >>> command_line({"model": {"depth": 3}, "shift": -1})
    ['--model.depth=3', '--shift=-1']

    Each name and value form a single word, because `argparse` would mistake a separate value that
    starts with a dash for the next flag. A `wl.Raw` adds only its own words. Its entry's name is
    dropped.

    >>> command_line({"lr": 0.1, "more": Raw("-v 'two words'")})
    ['--lr=0.1', '-v', 'two words']
    """
    if not isinstance(arguments, Mapping):
        return [word for value in arguments for word in _words(value)]
    return [word for name, value in _flat(arguments) for word in _flag(name, value)]


def dropped_names(arguments: Mapping[str, Any] | Sequence[Any]) -> list[str]:
    """Return the names of arguments that the command line omits because their value is None.

    >>> dropped_names({"lr": None, "model": {"depth": None}, "seed": 1})
    ['lr', 'model.depth']
    """
    if not isinstance(arguments, Mapping):
        return []
    return [name for name, value in _flat(arguments) if value is None]


def check_arguments(arguments: Any, own: Sequence[str] = ()) -> list[Problem]:
    """Return the problems with a program's arguments.

    `own` contains the words that precede these arguments in the command.
    """
    if arguments is None:
        return []
    if _is_deep(arguments):
        flaw = f"mappings may be nested at most {DEEPEST} levels deep; flatten them"
        return [(("args",), f"args: {flaw}")]
    problems = _find_flaws(arguments) or clashes(arguments, own)
    if not problems and (count := len(command_line(arguments))) > _MOST_WORDS:
        return [
            (("args",), f"args: they make {count} words; a command line has at most {_MOST_WORDS}")
        ]
    return problems


def clashes(arguments: Any, own: Sequence[str] = ()) -> list[Problem]:
    """Return a problem for each flag that occurs twice in a command.

    Both occurrences may be in `arguments`, or one of them may be among `own`, the command's own
    words.

    >>> clashes({"model": {"depth": 3}, "model.depth": 4})
    [(('args', 'model.depth'), 'args: model.depth is given twice')]
    >>> clashes({"batch_size": 8, "lr": 1}, ["--batch-size", "4"])
    [(('args', 'batch_size'), 'args: batch_size: the command already has the flag --batch-size')]
    """
    if not isinstance(arguments, Mapping):
        return []
    problems: list[Problem] = []
    there = {_flag_key(word): word for word in own_flags(own)}
    seen: dict[str, str] = {}
    for name, value in _flat(arguments):
        if value is None or isinstance(value, Raw):
            continue  # such a value produces no flag
        key = _flag_key(name)
        flaw = ""
        if key in there:
            flaw = f"{name}: the command already has the flag {there[key]}"
        elif key in seen:
            same = seen[key] == name
            flaw = (
                f"{name} is given twice"
                if same
                else f"{name} and {seen[key]} are the same flag; keep one"
            )
        if flaw:
            problems.append((("args", name), f"args: {flaw}"))
        seen.setdefault(key, name)
    return problems


def own_flags(words: Sequence[str]) -> list[str]:
    """Return the flags in a command that are meant for its program.

    Flags before a script's name are left out, because they are meant for the interpreter or
    launcher.

    >>> own_flags(["--nproc-per-node", "2", "train.py", "--lr=0.1", "-v"])
    ['--lr', '-v']
    """
    scripts = [number for number, word in enumerate(words) if word.endswith(".py")]
    after = words[scripts[-1] + 1 :] if scripts else words
    return [word.partition("=")[0] for word in after if _is_option(word) and word != "--"]


def _flag_key(name: str) -> str:
    """Normalize a flag's name, so that `--no-batch-size` and `batch_size` give the same key."""
    return name.lstrip("-").replace("-", "_").removeprefix("no_")


def _find_flaws(arguments: Any) -> list[Problem]:
    if isinstance(arguments, Mapping):
        return [problem for entry in arguments.items() for problem in _check_entry(*entry)]
    if isinstance(arguments, (str, bytes)) or not isinstance(arguments, Sequence):
        flaw = "is neither a mapping of flags nor a list of words"
        return [
            (("args",), f'args: {shown(arguments)} {flaw}; write {{"lr": 0.1}} or ["--lr", "0.1"]')
        ]
    return [
        (("args",), f"args: {shown(value)} {flaw}")
        for value in arguments
        if (flaw := _value_flaw(value))
    ]


def _check_entry(name: Any, value: Any, above: tuple[str, ...] = ()) -> Iterator[Problem]:
    keys = ("args", *above, format_key(name))
    if not isinstance(name, str) or not _FLAG.fullmatch(name):
        meant = format_key(name).lstrip("-").partition("=")[0]
        guess = f"; write {shown(meant)}" if _FLAG.fullmatch(meant) else ""
        yield keys, f"args: {shown(name)} is not a valid flag name{guess}"
    elif isinstance(value, Mapping):
        for inner in value.items():
            yield from _check_entry(*inner, above=(*above, name))
    elif value is not None and not isinstance(value, bool):
        path = ".".join((*above, name))
        for item in value if _is_list(value) else [value]:
            flaw = _value_flaw(item)
            if flaw:
                yield keys, f"args: {path} is {shown(item)}, which {flaw}"


def _is_deep(value: Any, left: int = DEEPEST) -> bool:
    """Return whether a value's mappings are nested too deeply.

    A mapping that contains itself is always too deep.
    """
    return isinstance(value, Mapping) and (
        left == 0 or any(_is_deep(inner, left - 1) for inner in value.values())
    )


def _value_flaw(value: Any) -> str:
    if isinstance(value, str):
        return find_text_flaw(value)
    if isinstance(value, Raw):
        return _raw_flaw(value)
    if isinstance(value, os.PathLike):
        return find_text_flaw(os.fsdecode(value))
    is_number = isinstance(value, numbers.Number) and not isinstance(value, bool)
    if is_number and isinstance(value, int) and abs(value) >= 10**_MOST_DIGITS:
        return f"has more than {_MOST_DIGITS} digits"  # Python refuses to print longer numbers
    return "" if is_number else "is neither a string nor a number"


def _flat(arguments: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in arguments.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _flag(name: str, value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    return [
        word
        for item in (value if _is_list(value) else [value])
        for word in (_words(item) if isinstance(item, Raw) else [f"--{name}={to_argument(item)}"])
    ]


def _words(value: Any) -> list[str]:
    return shlex.split(value.text) if isinstance(value, Raw) else [to_argument(value)]


def _raw_flaw(raw: Raw) -> str:
    if not isinstance(raw.text, str):
        return "is not a string"
    try:
        shlex.split(raw.text)
    except ValueError as error:
        return f"is not a valid shell line: {str(error)[:1].lower()}{str(error)[1:]}"
    return find_text_flaw(raw.text)


def to_argument(value: Any) -> str:
    """Convert a value to a single command-line word."""
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    return str(value.value if isinstance(value, Enum) else value)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def read_params(arguments: Sequence[str]) -> dict[str, Any]:
    """Parse parameters from a program's arguments, following common conventions for flags.

    >>> read_params(["--lr", "0.1", "--batch-size=32", "--shuffle", "--no-cache", "data"])
    {'lr': 0.1, 'batch_size': 32, 'shuffle': True, 'cache': False, 'args': ['data']}
    >>> read_params(["model.depth=3", "seed=true", "-v", "--bias", "-1"])
    {'model.depth': 3, 'seed': True, 'v': True, 'bias': -1}
    >>> read_params(["--tag", "a", "--tag", "b", "--", "--plain"])
    {'tag': ['a', 'b'], 'args': ['--plain']}
    """
    params: dict[str, Any] = {}
    others: list[Any] = []
    waiting = list(reversed(arguments))
    while waiting:
        word = waiting.pop()
        if word == "--":
            others += reversed(waiting)
            break
        following = waiting[-1] if waiting else None
        if (option := _OPTION.fullmatch(word)) and not _is_number(word):
            name, value = option[1], option[2]
            if value is not None:
                _add(params, name, read_value(value))
            elif name.startswith("no-") and not (following and _is_number(following)):
                _add(params, name.removeprefix("no-"), False)
            elif following is None or _is_option(following):
                _add(params, name, True)
            else:
                _add(params, name, read_value(waiting.pop()))
        elif setting := _SETTING.fullmatch(word):
            params[setting[1]] = read_value(setting[2])
        else:
            others.append(read_value(word))
    if others:
        params["args"] = others
    return params


def read_value(text: str) -> Any:
    """Parse a number or a boolean. Return any other text unchanged.

    >>> [read_value(text) for text in ("3", "-1e-3", "True", "007", "nan", "adam")]
    [3, -0.001, True, '007', 'nan', 'adam']
    """
    if _WHOLE.fullmatch(text):
        number = int(text[:_LONGEST_EXACT])  # Python refuses to parse numbers with too many digits
        return number if len(text) <= _LONGEST_EXACT and abs(number) <= _EXACT else text
    if _DECIMAL.fullmatch(text):
        value = float(text)
        return value if abs(value) < float("inf") else text
    return {"true": True, "false": False}.get(text.lower(), text)


def _add(params: dict[str, Any], name: str, value: Any) -> None:
    """Add an option, with underscores instead of dashes. A repeated option becomes a list."""
    key = name.replace("-", "_")
    if key not in params:
        params[key] = value
    elif isinstance(params[key], list):
        params[key].append(value)
    else:
        params[key] = [params[key], value]


def _is_option(word: str) -> bool:
    return word == "--" or (_OPTION.fullmatch(word) is not None and not _is_number(word))


def _is_number(word: str) -> bool:
    return bool(_WHOLE.fullmatch(word) or _DECIMAL.fullmatch(word))
