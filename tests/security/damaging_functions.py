"""Functions of trials that damage their own files, and of a normal trial."""

from __future__ import annotations

import os

import windlass as wl


@wl.run(cpus=0.1)
def vandal(way: str) -> None:
    trial = os.environ["WINDLASS_TRIAL_ID"]
    os.chdir(os.path.join(os.environ["WINDLASS_HOME"], "trials", trial, "main-0", "1"))

    def write(name: str, content: bytes) -> None:
        with open(name, "wb") as file:
            file.write(content)

    print("before")
    exec(way, {"os": os, "write": write})
    print("after")
    os._exit(0)  # without a return value that would replace the damaged file


@wl.run(cpus=0.1)
def neighbour() -> str:
    return "fine"
