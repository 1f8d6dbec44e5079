"""Google's TPU sizes: the number of chips, their topology, and the number of machines.

The data comes from Google's documentation. The number in a name counts chips if the generation ends
in "e". For all other generations, it counts cores, of which a chip has two. Both `v4-8` and `v5e-4`
therefore have four chips.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple


class TpuSize(NamedTuple):
    """A TPU size: a slice of interconnected machines."""

    name: str
    chips: int
    topology: str
    hosts: int
    chips_per_host: int

    def __str__(self) -> str:
        machines = "1 machine" if self.hosts == 1 else f"{self.hosts} machines"
        chips = "1 chip" if self.chips == 1 else f"{self.chips} chips"
        return f"{self.name}: {chips} ({self.topology}) on {machines}"


# Chips per dimension, for chips in a two- or three-dimensional grid.
_SQUARES = ("1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
_CUBES = (
    "2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8", "8x8x16", "8x16x16",
)  # fmt: skip
_LARGER_CUBES = (
    "4x4x12", "4x4x20", "4x8x12", "4x4x28", "4x12x12", "4x8x20", "8x8x12", "4x12x20", "8x12x12",
    "8x8x20", "12x12x12", "8x8x28", "8x12x20", "12x12x16", "8x16x20", "12x12x20", "12x16x16",
    "16x16x16", "16x16x24",
)  # fmt: skip
_TOPOLOGIES = {
    "v2": ("2x2", "4x4", "8x8", "8x16", "16x16"),
    "v3": ("2x2", "4x4", "4x8", "8x8", "8x16", "16x16", "16x32", "32x32"),
    "v4": (*_CUBES, "12x16x16"),
    "v5e": _SQUARES,
    "v5p": (*_CUBES, *_LARGER_CUBES),
    "v6e": _SQUARES,
}
_HOST = 4  # chips per machine in a multi-machine slice
_LARGEST_HOST = {"v5e": 8, "v6e": 8}  # a slice with at most this many chips is a single machine


def tpu_sizes(kind: str) -> tuple[TpuSize, ...]:
    """Return a TPU generation's sizes, smallest first. Return () if `kind` is not a TPU.

    >>> [size.name for size in tpu_sizes("v5e")]
    ['v5e-1', 'v5e-4', 'v5e-8', 'v5e-16', 'v5e-32', 'v5e-64', 'v5e-128', 'v5e-256']
    >>> print(tpu_sizes("v5e")[3], tpu_sizes("v4")[0], sep="\\n")
    v5e-16: 16 chips (4x4) on 4 machines
    v4-8: 4 chips (2x2x1) on 1 machine
    """
    sizes = [_size(kind, topology) for topology in _TOPOLOGIES.get(kind, ())]
    return tuple(sorted(sizes, key=lambda size: size.chips))


def tpu_size(kind: str, count: int) -> TpuSize | None:
    """Return the requested TPU size, or None if it does not exist.

    `("v5e", 8)` stands for `v5e-8`. A generation with the number 1 stands for its smallest size.

    >>> tpu_size("v3", 8).topology, tpu_size("v5p", 1).name, tpu_size("v5e", 3)
    ('2x2', 'v5p-8', None)
    """
    sizes = tpu_sizes(kind)
    if count == 1 and sizes:
        return sizes[0]
    return next((size for size in sizes if size.name == f"{kind}-{count}"), None)


def _size(kind: str, topology: str) -> TpuSize:
    chips = prod(int(side) for side in topology.split("x"))
    a_host = chips if chips <= _LARGEST_HOST.get(kind, _HOST) else _HOST
    named = chips if kind.endswith("e") else 2 * chips
    return TpuSize(f"{kind}-{named}", chips, topology, chips // a_host, a_host)
