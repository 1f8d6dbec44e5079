"""The accelerators there are, and how they are asked for: `"a100"`, `"a100x2"`, `"v5e-8"`.

Imports only the standard library: options are checked wherever a function is decorated.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from windlass.model.errors import shown


class AcceleratorKind(NamedTuple):
    """One model of accelerator."""

    name: str
    family: str  # "gpu" or "tpu"
    title: str
    memory_gb: int = 0
    aliases: tuple[str, ...] = ()


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

_BY_NAME = {name: kind for kind in KINDS for name in (kind.name, *kind.aliases)}
_COUNTED = re.compile(r"(.+?)[x:*](\d{1,4})", re.ASCII)
_TPU_SIZED = re.compile(r"(v\d[a-z]*)-(\d{1,4})", re.ASCII)


def parse_accelerator(text: str | None) -> tuple[str, int] | None:
    """What `accelerator=` means: none for the CPU, else a model and a count.

    >>> parse_accelerator("a100x2")
    ('a100', 2)
    >>> parse_accelerator("v3-8")
    ('v3', 8)
    >>> parse_accelerator("cpu") is None
    True
    >>> parse_accelerator("a10x0")
    Traceback (most recent call last):
    ...
    ValueError: 'a10x0' asks for 0 accelerators; ask for 1 or more, or for 'cpu'
    >>> parse_accelerator("h10")
    Traceback (most recent call last):
    ...
    ValueError: there is no accelerator 'h10'; did you mean 'h100'? See: windlass accelerators
    """
    if text is None:
        return None
    if not isinstance(text, str):
        raise ValueError(
            f"{shown(text)} is no accelerator; write a name such as 'a100' or 'a100x2'"
        )
    asked = text.strip().lower()
    if asked == "cpu":
        return None
    name, count = asked, 1
    sized = _COUNTED.fullmatch(asked) or _TPU_SIZED.fullmatch(asked)
    if asked not in _BY_NAME and sized:
        name, count = sized[1], int(sized[2])
    if name not in _BY_NAME:
        import difflib

        near = difflib.get_close_matches(name, [*_BY_NAME, "cpu"], n=1, cutoff=0.5)
        guess = f"; did you mean '{near[0]}'?" if near else "."
        raise ValueError(f"there is no accelerator {shown(text)}{guess} See: windlass accelerators")
    if count < 1:
        raise ValueError(f"{shown(text)} asks for 0 accelerators; ask for 1 or more, or for 'cpu'")
    return _BY_NAME[name].name, count


def kind_of_device(title: str) -> str:
    """The name of the accelerator that a device calls itself by.

    >>> kind_of_device("NVIDIA A100-SXM4-80GB")
    'a100-80gb'
    >>> kind_of_device("Some New GPU")
    'gpu'
    """
    words = re.sub(r"[^a-z0-9]", "", title.lower())
    fitting = [
        kind.name
        for kind in KINDS
        if kind.family == "gpu" and all(part in words for part in kind.name.split("-"))
    ]
    return max(fitting, key=len, default="gpu")


def satisfies(device_kind: str, asked_kind: str) -> bool:
    """Whether a device of one kind serves a request for another."""
    return asked_kind in ("gpu", device_kind) or (
        asked_kind == "a100" and device_kind == "a100-80gb"
    )
