"""Search spaces, which describe a parameter's possible values.

Spaces are plain values that are checked when they are created.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, SupportsFloat, SupportsIndex

import msgspec

from windlass.model.errors import InvalidArgument, shown

_MOST_OPTIONS = 10_000


class Uniform(msgspec.Struct, frozen=True, tag="uniform", omit_defaults=True):
    """A range of numbers, including both ends. Created by `wl.uniform` and `wl.loguniform`."""

    low: float
    high: float
    step: float | None = None
    log: bool = False

    @property
    def example(self) -> Any:
        """A value from this space."""
        return self.low

    @property
    def values(self) -> list[Any] | None:
        """All values in this space in order, or None if there are infinitely many."""
        if self.step is None:
            return None
        low, high, step = (Decimal(str(number)) for number in (self.low, self.high, self.step))
        return [float(low + step * i) for i in range(int((high - low) // step) + 1)]

    def __repr__(self) -> str:
        if self.log:
            return f"loguniform({self.low:g}, {self.high:g})"
        step = "" if self.step is None else f", step={self.step:g}"
        return f"uniform({self.low:g}, {self.high:g}{step})"


class Randint(msgspec.Struct, frozen=True, tag="randint", omit_defaults=True):
    """A range of integers, including both ends. Created by `wl.randint`."""

    low: int
    high: int
    step: int = 1
    log: bool = False

    @property
    def example(self) -> Any:
        """A value from this space."""
        return self.low

    @property
    def values(self) -> list[Any] | None:
        """All values in this space, in order."""
        return list(range(self.low, self.high + 1, self.step))

    def __repr__(self) -> str:
        step = "" if self.step == 1 else f", step={self.step}"
        return f"randint({self.low}, {self.high}{step}{', log=True' if self.log else ''})"


class Choice(msgspec.Struct, frozen=True, tag="choice", omit_defaults=True):
    """A list of options. Created by `wl.choice`."""

    options: tuple[Any, ...]

    @property
    def example(self) -> Any:
        """A value from this space."""
        return self.options[0]

    @property
    def values(self) -> list[Any] | None:
        """All values in this space, in order."""
        return list(self.options)

    def __repr__(self) -> str:
        return f"choice({', '.join(map(repr, self.options))})"


Space = Uniform | Randint | Choice


def uniform(
    low: SupportsFloat, high: SupportsFloat, *, step: SupportsFloat | None = None
) -> Uniform:
    """Choose a number from `low` to `high`.

    With `step`, only `low`, `low + step`, `low + 2 * step` and so on are possible.

    >>> uniform(0, 0.5)
    uniform(0, 0.5)
    >>> uniform(0.1, 0.4, step=0.1).values
    [0.1, 0.2, 0.3, 0.4]
    """
    what = "wl.uniform"
    ends = _number(what, "low", low), _number(what, "high", high)
    _check_order(what, *ends)
    if step is None:
        return Uniform(*ends)
    width = _number(what, "step", step)
    if width <= 0:
        raise InvalidArgument(f"{what}: step is {width:g}; it must be more than 0.")
    return Uniform(*ends, step=width)


def loguniform(low: SupportsFloat, high: SupportsFloat) -> Uniform:
    """Choose a number from `low` to `high` on a logarithmic scale.

    >>> loguniform(1e-5, 1e-1)
    loguniform(1e-05, 0.1)
    """
    what = "wl.loguniform"
    ends = _number(what, "low", low), _number(what, "high", high)
    _check_order(what, *ends)
    _check_positive(
        what, ends[0], "Begin slightly above 0, for example at 1e-6, or use wl.uniform."
    )
    return Uniform(*ends, log=True)


def randint(
    low: SupportsIndex, high: SupportsIndex, *, step: SupportsIndex = 1, log: bool = False
) -> Randint:
    """Choose an integer from `low` to `high`, including both.

    With `log`, the integer is chosen on a logarithmic scale.

    >>> randint(1, 8)
    randint(1, 8)
    >>> randint(0, 10, step=5).values
    [0, 5, 10]
    """
    what = "wl.randint"
    ends = _whole(what, "low", low), _whole(what, "high", high)
    width = _whole(what, "step", step)
    _check_order(what, *ends)
    if width < 1:
        raise InvalidArgument(f"{what}: step is {width}; it must be 1 or more.")
    if log:
        _check_positive(what, ends[0], "Begin with 1, or leave log out.")
        if width != 1:
            raise InvalidArgument(f"{what}: step and log cannot be combined.")
    return Randint(*ends, step=width, log=log)


def choice(*options: Any) -> Choice:
    """Choose one of the options, which can also be passed as one list.

    An option is a text, number, boolean, None, or a list or mapping of such values.

    >>> choice("adam", "sgd")
    choice('adam', 'sgd')
    >>> choice([2, 4, 8])
    choice(2, 4, 8)
    """
    if len(options) == 1 and isinstance(options[0], (list, tuple, range, set, frozenset)):
        values = options[0]
        options = tuple(
            sorted(values, key=repr) if isinstance(values, (set, frozenset)) else values
        )
    if not options:
        raise InvalidArgument(
            "wl.choice: there is nothing to choose from.", hint='Name options: wl.choice("a", "b")'
        )
    if len(options) > _MOST_OPTIONS:
        raise InvalidArgument(f"wl.choice: {len(options)} options are too many.")
    plain = tuple(_option(option) for option in options)
    seen: set[bytes] = set()
    for option in plain:
        if (text := msgspec.json.encode(option)) in seen:
            raise InvalidArgument(f"wl.choice: {shown(option)} occurs twice.")
        seen.add(text)
    return Choice(plain)


def flatten(space: Mapping[str, Any]) -> dict[str, Space]:
    """Return the spaces by name. Names in nested mappings are joined with dots.

    >>> flatten({"lr": uniform(0, 1), "net": {"layers": choice(2, 4)}})
    {'lr': uniform(0, 1), 'net.layers': choice(2, 4)}
    """
    if not isinstance(space, Mapping):
        raise InvalidArgument(
            f"space is a {type(space).__name__}; it must map parameter names to their choices.",
            hint='For example: space={"lr": wl.loguniform(1e-5, 1e-1), "layers": '
            "wl.choice(2, 4, 8)}",
        )
    axes = dict(_flat(space, ""))
    if not axes:
        raise InvalidArgument(
            "space is empty, so there is nothing to search.",
            hint='For example: space={"lr": wl.loguniform(1e-5, 1e-1)}',
        )
    return axes


def _flat(space: Mapping[Any, Any], prefix: str) -> Iterator[tuple[str, Space]]:
    for name, value in space.items():
        if not isinstance(name, str) or not name:
            raise InvalidArgument(f"space: {shown(name)} is not a valid parameter name.")
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, (Uniform, Randint, Choice)):
            yield prefix + name, value
        else:
            raise _no_space(prefix + name, value)


def _no_space(name: str, value: object) -> InvalidArgument:
    if isinstance(value, (list, tuple, range, set, frozenset)):
        hint = f'To try each value: "{name}": wl.choice({shown(value)})'
    elif callable(value):
        hint = f"Call it: {getattr(value, '__name__', 'it')}(...)"
    else:
        hint = f'Pass a value that is the same in every trial as args={{"{name}": {shown(value)}}}'
    return InvalidArgument(
        f"space: {name} is {shown(value)}, which is not a search space.", hint=hint
    )


_PLAIN = (str, bool, int, float, type(None))


def _option(value: Any) -> Any:
    """Return an option in a recordable form, in which numpy scalars become Python numbers."""
    kind = type(value)
    if kind.__module__ == "numpy" and hasattr(value, "item") and getattr(value, "shape", 0) == ():
        value = value.item()
        kind = type(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidArgument(f"wl.choice: {value} cannot be recorded. Use finite numbers.")
    if kind in _PLAIN:
        return value
    if kind in (list, tuple):
        return kind(_option(item) for item in value)
    if kind is dict and all(isinstance(key, str) for key in value):
        return {key: _option(item) for key, item in value.items()}
    raise InvalidArgument(
        f"wl.choice: {shown(value)} cannot be recorded. Options are strings, numbers, "
        "booleans, None, and lists or mappings of them.",
        hint='Use a name, and look it up in the function: wl.choice("relu", "tanh")',
    )


def _number(what: str, name: str, value: SupportsFloat) -> float:
    try:
        if isinstance(value, (str, bytes, bool)):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError):
        raise InvalidArgument(f"{what}: {name} is {shown(value)}, which is not a number.") from None
    if not math.isfinite(number):
        raise InvalidArgument(f"{what}: {name} is {number}; it must be finite.")
    return number


def _whole(what: str, name: str, value: SupportsIndex) -> int:
    from operator import index

    try:
        if isinstance(value, bool):
            raise TypeError
        return index(value)
    except TypeError:
        hint = "For numbers with a fraction, use wl.uniform" if isinstance(value, float) else None
        raise InvalidArgument(
            f"{what}: {name} is {shown(value)}, which is not a whole number.", hint=hint
        ) from None


def _check_order(what: str, low: float, high: float) -> None:
    if low < high:
        return
    why = "low and high are equal" if low == high else "low is greater than high"
    hint = (
        "Pass values that are the same in every trial as args={...}."
        if low == high
        else f"Swap them: {what}({high:g}, {low:g})"
    )
    raise InvalidArgument(f"{what}({low:g}, {high:g}): {why}.", hint=hint)


def _check_positive(what: str, low: float, remedy: str) -> None:
    if low <= 0:
        raise InvalidArgument(
            f"{what}: low is {low:g}; on a logarithmic scale, it must be above 0.", hint=remedy
        )
