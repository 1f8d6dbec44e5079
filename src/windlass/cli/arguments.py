"""A command line as parameters: what `windlass run` records of the arguments it passes on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_WHOLE = re.compile(r"[+-]?(0|[1-9]\d*)", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][+-]?\d+)?", re.ASCII)
_SETTING = re.compile(r"\+{0,2}([A-Za-z_][\w./-]*)=(.*)", re.ASCII | re.DOTALL)
_OPTION = re.compile(r"--?([A-Za-z_][\w.-]*)(?:=(.*))?", re.ASCII | re.DOTALL)
_EXACT = 2**53  # beyond this, readers of JSON lose digits


def read_params(arguments: Sequence[str]) -> dict[str, Any]:
    """The parameters that arguments spell out, in the ways programs commonly read them.

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
    """A number or a truth value, if the text spells one.

    >>> [read_value(text) for text in ("3", "-1e-3", "True", "007", "nan", "adam")]
    [3, -0.001, True, '007', 'nan', 'adam']
    """
    if _WHOLE.fullmatch(text):
        number = int(text)
        return number if abs(number) <= _EXACT else text
    if _DECIMAL.fullmatch(text):
        value = float(text)
        return value if abs(value) < float("inf") else text
    return {"true": True, "false": False}.get(text.lower(), text)


def _add(params: dict[str, Any], name: str, value: Any) -> None:
    """Note an option, under the name that Python programs know it by; repeated, it is a list."""
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
