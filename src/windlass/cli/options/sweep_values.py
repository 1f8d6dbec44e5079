"""Parses `--sweep`, which names the values of a parameter to try."""

from __future__ import annotations

import re
from collections.abc import Sequence

from windlass.authoring.checks.command_line import read_value
from windlass.model.errors import InvalidArgument, WindlassError, shown
from windlass.search.spaces import Space, Uniform, choice, loguniform, randint, uniform

_NAME = re.compile(r"-{0,2}([A-Za-z_][\w.-]*)=(.*)", re.ASCII | re.DOTALL)
_RANGE = re.compile(r"([^:]*?)\.\.([^:]*?)(?::(.*))?", re.DOTALL)
_COMMA = re.compile(r",(?![^\[({]*[\])}])")  # a comma outside of brackets
_WIDE = 100  # a range whose ends differ by this factor is logarithmic
_FORMS = "Write values or a range: --sweep lr=0.1,0.01 or --sweep lr=1e-4..1e-1"


def read_sweeps(texts: Sequence[str]) -> dict[str, Space]:
    """Parse all `--sweep` options of a command.

    >>> read_sweeps(["lr=0.1,0.01", "layers=1..8"])
    {'lr': choice(0.1, 0.01), 'layers': randint(1, 8)}
    """
    spaces: dict[str, Space] = {}
    for text in texts:
        name, space = _read(text)
        if name in spaces:
            raise InvalidArgument(
                f"--sweep: {name} is given twice.", hint=f"Join the values: --sweep {name}=1,2,3"
            )
        spaces[name] = space
    return spaces


def read_values(text: str) -> Space:
    """Parse the values of one parameter.

    Values are separated by commas. Numbers and booleans are converted.

    >>> read_values("adam,sgd"), read_values("[64,32],[128]"), read_values("true,false")
    (choice('adam', 'sgd'), choice('[64,32]', '[128]'), choice(True, False))

    A range has two ends, both included. A positive range is logarithmic if its ends differ by a
    factor of at least 100. A suffix sets the scale or a step.

    >>> read_values("1e-4..1e-1"), read_values("0..0.5"), read_values("8..1024")
    (loguniform(0.0001, 0.1), uniform(0, 0.5), randint(8, 1024, log=True))
    >>> read_values("8..1024:linear"), read_values("1..8:log"), read_values("0..0.5:0.1")
    (randint(8, 1024), randint(1, 8, log=True), uniform(0, 0.5, step=0.1))
    """
    if (match := _RANGE.fullmatch(text)) is not None:
        low, high = read_value(match[1]), read_value(match[2])
        if _is_number(low) and _is_number(high):
            return _range(low, high, match[3])
    values = _COMMA.split(text)
    if not all(values):
        raise InvalidArgument("a value is empty.", hint=_FORMS)
    return choice(*dict.fromkeys(map(read_value, values)))


def grid_problem(name: str, space: Space) -> InvalidArgument | None:
    """Return an error if a parameter has too many values for a grid, which tries every value."""
    if not isinstance(space, Uniform) or space.values is not None:
        return None
    low, high = f"{space.low:g}", f"{space.high:g}"
    tenth = f"{(space.high - space.low) / 10:g}"
    step = "" if space.log else f", or a step: --sweep {name}={low}..{high}:{tenth}"
    return InvalidArgument(
        f"--sweep: {name} is a range, {space!r}, and a grid cannot try every value of it.",
        hint=f"Write values: --sweep {name}={low},{high}{step}\n"
        "Or let a search choose values: --search random --metric 'min loss'",
    )


def _read(text: str) -> tuple[str, Space]:
    match = _NAME.fullmatch(text)
    if match is None:
        raise InvalidArgument(f"--sweep: {shown(text)} is not NAME=VALUES.", hint=_FORMS)
    try:
        return match[1], read_values(match[2])
    except WindlassError as error:
        raise InvalidArgument(
            f"--sweep {text}: {error.message}", hint=error.hint or _FORMS
        ) from None


def _range(low: float, high: float, suffix: str | None) -> Space:
    if low >= high:
        if low == high:
            raise InvalidArgument("both ends are equal.", hint=f"Write one value: {low:g}")
        raise InvalidArgument(
            "the first end is greater than the second.", hint=f"Swap them: {high:g}..{low:g}"
        )
    is_whole = isinstance(low, int) and isinstance(high, int)
    step = read_value(suffix) if suffix is not None else None
    if _is_number(step):
        if is_whole and isinstance(step, int):
            return randint(low, high, step=step)  # type: ignore[arg-type]  # checked above
        return uniform(low, high, step=step)
    if suffix not in (None, "log", "linear"):
        raise InvalidArgument(
            f"{shown(suffix)} is neither a scale nor a step.",
            hint="After the range, write :log, :linear or a step: --sweep n=2..10:2",
        )
    is_log = suffix == "log" or (suffix is None and low > 0 and high >= _WIDE * low)
    if is_whole:
        return randint(low, high, log=is_log)  # type: ignore[arg-type]  # checked above
    return loguniform(low, high) if is_log else uniform(low, high)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
