"""Executors: where the replicas of a job run, and what is set aside for each."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.authoring.checks import telling_unknown


@telling_unknown
@dataclass(frozen=True)
class Local:
    """This machine, or the server's: plain processes, with room set aside for each replica.

    ```python
    wl.Local(cpus=2, memory="4GB")
    wl.Local(accelerator="a100x2")
    ```

    Args:
        cpus: how many CPUs are set aside for a replica (1).
        memory: how much memory is set aside for it: `"16GB"`.
        accelerator: what it computes on: `"a100"`, `"a100x2"`, `"gpu"`, `"cpu"`.
    """

    cpus: float | None = None
    memory: str | int | None = None
    accelerator: str | None = None
