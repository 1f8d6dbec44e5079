"""The results of a run, as printed and as written to JSON."""

from __future__ import annotations

from typing import Literal

import msgspec

from benchmarks.samples import Samples

Unit = Literal["ms", "a second", "MB", "% of a core", "×"]


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """A figure that was measured.

    `ratio` is the amount divided by that of bare Python, measured in turn in the same run. For a
    rate, it compares the time of one item.
    """

    amount: float
    unit: Unit
    samples: int
    low: float | None = None  # the quartiles of the samples
    high: float | None = None
    ratio: float | None = None
    bare: float | None = None  # the value of bare Python: milliseconds, or MB for memory


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """The limit of a figure."""

    limit: float
    of: Literal["amount", "ratio"] = "amount"
    sense: Literal["at most", "at least"] = "at most"
    text: str

    def holds(self, value: Value) -> bool | None:
        """Return whether a value meets the budget; None if unknown.

        >>> Budget(limit=40, text="≤ 40 ms").holds(Value(amount=41, unit="ms", samples=9))
        False
        """
        measured = value.amount if self.of == "amount" else value.ratio
        if measured is None:
            return None
        return measured <= self.limit if self.sense == "at most" else measured >= self.limit


class PeerFigure(msgspec.Struct, frozen=True, kw_only=True):
    """The same done by another: its value, or why there is none."""

    name: str
    title: str
    value: Value | None = None
    note: str = ""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One row: the measurement, its value, its budget and the values of peers."""

    name: str
    title: str
    value: Value | None = None
    budget: Budget | None = None
    ok: bool | None = None
    peers: tuple[PeerFigure, ...] = ()
    note: str = ""
    error: str = ""  # why there is no value


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The machine of a run."""

    system: str
    processor: str
    cores: int
    memory_gb: float
    python: str
    git: str
    load_before: float
    load_after: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run, as `--json` writes it."""

    version: int = 1  # of this layout
    windlass: str
    commit: str
    started: float
    took: float
    machine: Machine
    conditions: str  # how it was measured
    yardstick: str  # the command every ratio refers to
    bare: Value
    peers: dict[str, str]  # the version of each, or why it is missing
    figures: tuple[Figure, ...]


def figure(
    name: str,
    title: str,
    value: Value,
    budget: Budget | None = None,
    peers: tuple[PeerFigure, ...] = (),
    note: str = "",
) -> Figure:
    """A row with a value, its budget judged."""
    ok = budget.holds(value) if budget else None
    return Figure(name=name, title=title, value=value, budget=budget, ok=ok, peers=peers, note=note)


def time_value(times: Samples, bare: Samples, amount: float | None = None) -> Value:
    """A time in milliseconds: the median, or another quantile of the samples."""
    seconds = times.median if amount is None else amount
    low, high = times.quartiles
    return Value(
        amount=seconds * 1e3,
        unit="ms",
        samples=len(times),
        low=low * 1e3,
        high=high * 1e3,
        ratio=seconds / bare.median,
        bare=bare.median * 1e3,
    )


def rate_value(times: Samples, count: int, bare: Samples) -> Value:
    """So many a second; the ratio is of the time one takes."""
    low, high = times.quartiles
    return Value(
        amount=count / times.median,
        unit="a second",
        samples=len(times),
        low=count / high,
        high=count / low,
        ratio=times.median / count / bare.median,
        bare=bare.median * 1e3,
    )


def at_most(limit: float, unit: str) -> Budget:
    """A budget for the amount itself."""
    return Budget(limit=limit, text=f"≤ {limit:g} {unit}")


def at_least(limit: float, unit: str) -> Budget:
    """A budget for an amount that is better the larger it is."""
    return Budget(limit=limit, sense="at least", text=f"≥ {limit:g} {unit}")


def at_most_bare(times: float) -> Budget:
    """A budget in times of bare Python."""
    return Budget(limit=times, of="ratio", text=f"≤ {times:g} × bare")
