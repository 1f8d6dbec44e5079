"""Builds the calls of `map` and `starmap` from the values that the user passes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from types import FunctionType, GeneratorType
from typing import Any, NamedTuple

from windlass.model.errors import InvalidArgument, shown


class MapCall(NamedTuple):
    """The arguments of one call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class MapCalls:
    """The calls of one `map` or `starmap`, in order.

    If `is_lazy`, the values come from a Python generator, which may wait for the trials of its
    earlier values.
    """

    def __init__(self, calls: Iterable[MapCall], total: int | None, *, is_lazy: bool) -> None:
        self._calls = calls
        self.total = total  # None if it is unknown
        self.is_lazy = is_lazy

    def __iter__(self) -> Iterator[MapCall]:
        return iter(self._calls)


def map_calls(name: str, iterables: Sequence[Any], named: Mapping[str, Any]) -> MapCalls:
    """Combine the values of `map` into calls.

    The first call gets the first value of each list, the second call gets the second value of each
    list, and so on.

    >>> list(map_calls("train", [[0.1, 0.2]], {"epochs": [3, 5]}))[1]
    MapCall(args=(0.2,), kwargs={'epochs': 5})
    """
    for key, values in named.items():
        _check_values(name, key, values)
    every = [*iterables, *named.values()]
    if not every:
        raise InvalidArgument(
            f"{name}.map has no values.", hint=f"Write one value per trial: {name}.map([0.1, 0.01])"
        )
    sizes = [len(values) for values in every if isinstance(values, Sized)]
    if len(set(sizes)) > 1:
        _raise_for_sizes(name, iterables, named)
    iterators = [iter(values) for values in every]
    first = len(iterables)
    calls = (
        MapCall(row[:first], dict(zip(named, row[first:], strict=True)))
        for row in zip(*iterators, strict=False)  # an iterator such as `repeat` may be longer
    )
    return MapCalls(calls, min(sizes, default=None), is_lazy=_is_lazy(iterators, sizes))


def starmap_calls(name: str, items: Iterable[Any]) -> MapCalls:
    """Convert the items of `starmap` to calls.

    An item is a list of positional arguments or a mapping of keyword arguments.

    >>> list(starmap_calls("train", [(0.1, 3), {"lr": 0.2}]))
    [MapCall(args=(0.1, 3), kwargs={}), MapCall(args=(), kwargs={'lr': 0.2})]
    """
    sizes = [len(items)] if isinstance(items, Sized) else []
    iterator = iter(items)
    calls = (_call_of(name, item) for item in iterator)
    return MapCalls(calls, min(sizes, default=None), is_lazy=_is_lazy([iterator], sizes))


def _call_of(name: str, item: Any) -> MapCall:
    if isinstance(item, Mapping):
        return MapCall((), dict(item))
    if isinstance(item, (str, bytes)) or not isinstance(item, Iterable):
        raise TypeError(
            f"{name}.starmap: {shown(item)} is neither a list nor a mapping of arguments. For one "
            f"argument per trial, write {name}.map([...])"
        )
    return MapCall(tuple(item), {})


def _check_values(name: str, key: str, values: Any) -> None:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidArgument(
            f"{name}.map: {key} is {shown(values)}, and not a list with one value per trial.",
            hint=f"For the same value in every trial: {key}=itertools.repeat({shown(values)})",
        )


def _raise_for_sizes(name: str, iterables: Sequence[Any], named: Mapping[str, Any]) -> None:
    sizes = [
        f"{label} has {len(values)}"
        for label, values in [
            *((f"list {number}", values) for number, values in enumerate(iterables, 1)),
            *named.items(),
        ]
        if isinstance(values, Sized)
    ]
    raise InvalidArgument(
        f"{name}.map: the lists have different lengths: {', '.join(sizes)}.",
        hint=f"Each trial takes one value of each list. For every combination: "
        f"{name}.starmap(itertools.product(...))",
    )


def _is_lazy(iterators: Sequence[Iterator[Any]], sizes: Sequence[int]) -> bool:
    """Return whether an iterator of unknown length runs Python code for each value.

    >>> _is_lazy([(x for x in ())], []), _is_lazy([iter(zip((), ()))], [])
    (True, False)
    """
    return not sizes and any(map(_runs_python, iterators))


def _runs_python(iterator: Iterator[Any]) -> bool:
    is_written_in_python = isinstance(type(iterator).__next__, FunctionType)
    return isinstance(iterator, GeneratorType) or is_written_in_python
