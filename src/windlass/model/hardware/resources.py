"""The resources that a replica requests, and those that a machine has."""

from __future__ import annotations

from typing import Annotated

import msgspec

from windlass.model.hardware.accelerators import is_tpu
from windlass.model.text.quantities import format_size


class Accelerator(msgspec.Struct, frozen=True, kw_only=True):
    """One or more accelerators of the same model, such as two A100."""

    kind: str
    count: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 1

    def __str__(self) -> str:
        sign = "-" if is_tpu(self.kind) else "x"
        return self.kind if self.count == 1 else f"{self.kind}{sign}{self.count}"


class Resources(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The resources that one replica needs."""

    cpus: Annotated[float, msgspec.Meta(ge=0, le=1_000_000)] = 1.0
    memory: Annotated[int, msgspec.Meta(ge=0, le=2**60)] = 0  # bytes; 0 means no request
    accelerator: Accelerator | None = None
    # Threads per numeric library. If 0, a library starts one thread per core.
    threads: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0

    def __str__(self) -> str:
        parts = [f"{self.cpus:g} CPU" + ("" if self.cpus == 1 else "s")]
        if self.memory:
            parts.append(format_size(self.memory))
        if self.accelerator:
            parts.append(str(self.accelerator))
        return ", ".join(parts)


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """One of a machine's accelerators."""

    index: int
    kind: str
    title: str = ""
    memory: int = 0


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """A machine's resources that are available to trials."""

    cpus: float
    memory: int
    devices: tuple[Device, ...] = ()
