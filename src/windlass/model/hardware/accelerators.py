"""Accelerators and the notation for requesting them: `"a100"`, `"a100x2"`, `"v5e-8"`.

This module imports only the standard library, because decorators use it to check their options at
program start.
"""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple

from windlass.model.errors import shown
from windlass.model.hardware.tpus import TpuSize, tpu_sizes


class AcceleratorKind(NamedTuple):
    """A kind of accelerator, as listed by [`wl.accelerators`](#wlaccelerators).

    `name` is the name to request, and `aliases` are alternative names. `family` is `"gpu"`, `"tpu"`
    or `"cpu"`. `title` is the vendor's product name. `memory_gb` is the memory of one accelerator,
    or 0 if it varies.
    """

    name: str
    family: str
    title: str
    memory_gb: int = 0
    aliases: tuple[str, ...] = ()

    @property
    def sizes(self) -> tuple[TpuSize, ...]:
        """The TPU's sizes, smallest first.

        A size has a name, a number of chips, a topology, a number of hosts, and a number of chips
        per host.

        ```python
        [v5e] = [kind for kind in wl.accelerators() if kind.name == "v5e"]
        print(v5e.sizes[3])  # v5e-16: 16 chips (4x4) on 4 machines
        ```
        """
        return tpu_sizes(self.name) if self.family == "tpu" else ()


def _gpu(name: str, title: str, memory_gb: int, *aliases: str) -> AcceleratorKind:
    return AcceleratorKind(
        name=name, family="gpu", title=title, memory_gb=memory_gb, aliases=aliases
    )


def _tpu(name: str, title: str, memory_gb: int, *aliases: str) -> AcceleratorKind:
    return AcceleratorKind(
        name=name, family="tpu", title=title, memory_gb=memory_gb, aliases=aliases
    )


KINDS: tuple[AcceleratorKind, ...] = (
    AcceleratorKind(name="gpu", family="gpu", title="any GPU"),
    _gpu("t4", "NVIDIA T4", 16),
    _gpu("v100", "NVIDIA V100", 16),
    _gpu("p100", "NVIDIA P100", 16),
    _gpu("a10", "NVIDIA A10", 24, "a10g"),
    _gpu("a40", "NVIDIA A40", 48),
    _gpu("a100", "NVIDIA A100", 40, "a100-40gb"),
    _gpu("a100-80gb", "NVIDIA A100 80GB", 80),
    _gpu("l4", "NVIDIA L4", 24),
    _gpu("l40s", "NVIDIA L40S", 48),
    _gpu("h100", "NVIDIA H100", 80, "h100-80gb"),
    _gpu("h200", "NVIDIA H200", 141),
    _gpu("b200", "NVIDIA B200", 180),
    _gpu("rtx3090", "NVIDIA GeForce RTX 3090", 24),
    _gpu("rtx4090", "NVIDIA GeForce RTX 4090", 24),
    _gpu("rtx5090", "NVIDIA GeForce RTX 5090", 32),
    _gpu("rtxa6000", "NVIDIA RTX A6000", 48, "a6000"),
    _tpu("v2", "Google TPU v2", 8),
    _tpu("v3", "Google TPU v3", 16),
    _tpu("v4", "Google TPU v4", 32),
    _tpu("v5e", "Google TPU v5e", 16, "v5litepod"),
    _tpu("v5p", "Google TPU v5p", 95),
    _tpu("v6e", "Google TPU v6e", 32),
)

CPU = AcceleratorKind(name="cpu", family="cpu", title="no accelerator")

_BY_NAME = {name: kind for kind in KINDS for name in (kind.name, *kind.aliases)}
_COUNTED = re.compile(r"(.+?)[x:*](\d{1,4})", re.ASCII)
_TPU_SIZED = re.compile(r"(v\d[a-z]*)-(\d{1,5})", re.ASCII)


def accelerators() -> list[AcceleratorKind]:
    """List the accelerators that `accelerator=` accepts, for every backend.

    ```python
    for kind in wl.accelerators():
        print(kind.name, kind.title, kind.memory_gb)
    ```

    Request several GPUs with a count (`"a100x2"`), and TPUs by size (`"v5e-16"`). To see which
    accelerators are available, run `windlass accelerators` on this machine, or `windlass kubernetes
    check` for a cluster.
    """
    return [CPU, *KINDS]


def is_tpu(kind: str) -> bool:
    """Return True if `kind` is a TPU, for which requests contain a size instead of a count.

    >>> is_tpu("v5e"), is_tpu("v100")
    (True, False)
    """
    return kind in _BY_NAME and _BY_NAME[kind].family == "tpu"


def parse_accelerator(text: str | None) -> tuple[str, int] | None:
    """Parse `accelerator=` into a model and a count. Return None for "cpu".

    >>> parse_accelerator("a100x2")
    ('a100', 2)
    >>> parse_accelerator("v3-8")
    ('v3', 8)
    >>> parse_accelerator("cpu") is None
    True
    >>> parse_accelerator("a10x0")
    Traceback (most recent call last):
    ...
    ValueError: 'a10x0' requests 0 accelerators; request 1 or more, or 'cpu'
    >>> parse_accelerator("v5e-3")
    Traceback (most recent call last):
    ...
    ValueError: there is no TPU 'v5e-3'; the sizes are v5e-1, v5e-4, v5e-8, v5e-16, v5e-32, \
v5e-64, v5e-128, v5e-256
    >>> parse_accelerator("h10")
    Traceback (most recent call last):
    ...
    ValueError: there is no accelerator 'h10'; did you mean 'h100'? See: windlass accelerators
    """
    if text is None:
        return None
    if not isinstance(text, str):
        raise ValueError(
            f"{shown(text)} is not an accelerator; write a name such as 'a100' or 'a100x2'"
        )
    spelling = text.strip().lower()
    if spelling == "cpu":
        return None
    name, count = spelling, 1
    sized = _COUNTED.fullmatch(spelling) or _TPU_SIZED.fullmatch(spelling)
    if spelling not in _BY_NAME and sized:
        name, count = sized[1], int(sized[2])
    if name not in _BY_NAME:
        import difflib

        near = difflib.get_close_matches(name, [*_BY_NAME, "cpu"], n=1, cutoff=0.5)
        guess = f"; did you mean '{near[0]}'?" if near else "."
        raise ValueError(f"there is no accelerator {shown(text)}{guess} See: windlass accelerators")
    if name != spelling and is_tpu(name) and "-" in spelling:
        _check_size(_BY_NAME[name].name, count)
    if count < 1:
        raise ValueError(f"{shown(text)} requests 0 accelerators; request 1 or more, or 'cpu'")
    return _BY_NAME[name].name, count


def _check_size(kind: str, count: int) -> None:
    names = [size.name for size in tpu_sizes(kind)]
    if f"{kind}-{count}" not in names:
        sizes = ", ".join(names if len(names) <= 10 else [*names[:9], f"... {names[-1]}"])
        raise ValueError(f"there is no TPU '{kind}-{count}'; the sizes are {sizes}")


def kind_of_device(title: str) -> str:
    """Return the accelerator's name for a product name reported by a device.

    >>> kind_of_device("NVIDIA A100-SXM4-80GB")
    'a100-80gb'
    >>> kind_of_device("NVIDIA GeForce RTX 4090"), kind_of_device("nvidia-tesla-t4")
    ('rtx4090', 't4')
    >>> kind_of_device("NVIDIA RTX A4000"), kind_of_device("Some New GPU")
    ('gpu', 'gpu')
    """
    words = re.findall(r"[a-z0-9]+", title.lower())
    words += [before + after for before, after in itertools.pairwise(words)]
    fitting = [
        kind.name
        for kind in KINDS
        if kind.family == "gpu" and all(_has(words, part) for part in kind.name.split("-"))
    ]
    return max(fitting, key=len, default="gpu")


def _has(words: list[str], part: str) -> bool:
    """Return True if a word is `part`, or starts with `part` followed by a non-digit.

    The word `a10g` therefore counts as `a10`, but `a100` does not.
    """
    return any(re.match(rf"{re.escape(part)}(?!\d)", word) for word in words)


def satisfies(device_kind: str, requested_kind: str) -> bool:
    """Return True if a device of `device_kind` satisfies a request for `requested_kind`."""
    return requested_kind in ("gpu", device_kind) or (
        requested_kind == "a100" and device_kind == "a100-80gb"
    )
