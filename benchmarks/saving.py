"""Checkpoints, beside `cp` of the same files: few large ones, and many small ones."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.model import Budget, Figure, PeerFigure, figure, time_value
from benchmarks.registry import Bench, benchmark
from benchmarks.samples import Samples, alternate
from benchmarks.workshop import Workshop
from benchmarks.yardstick import time_command

_ROUNDS = 3
_TIMES = 2  # what saving may take: twice as long as cp


@benchmark("checkpoint")
def measure_checkpoints(bench: Bench) -> Iterator[Figure]:
    """What is new, and what was saved before; cp hashes nothing and waits for no disk."""
    with Workshop() as shop:
        for name, title, files, size in (
            ("large", "1 GB in 4 files", 4, 256 << 20),
            ("small", "5,000 files of 8 kB", 5_000, 8 << 10),
        ):
            folder = _Folder(shop, name, files, size)
            taken = alternate(
                _ROUNDS, bare=bench.bare, ours=folder.save_new, again=folder.save,
                cp=folder.copy, synced=folder.copy_and_sync,
            )  # fmt: skip
            yield _beside_cp(name, f"checkpoint of {title}", taken, "ours")
            yield _beside_cp(f"{name}-again", f"the same again, unchanged: {title}", taken, "again")
            folder.remove()


def _beside_cp(name: str, title: str, taken: dict[str, Samples], ours: str) -> Figure:
    def value(of: str) -> Any:
        return time_value(taken[of], taken["bare"])

    return figure(
        f"checkpoint.{name}",
        title,
        value(ours),
        Budget(limit=_TIMES * value("cp").amount, text=f"≤ {_TIMES} × cp"),
        (
            PeerFigure(name="cp", title="cp -r", value=value("cp")),
            PeerFigure(name="cp, on the disk", title="cp -r && sync -f", value=value("synced")),
        ),
        note="hashed, and on the disk when it returns",
    )


class _Folder:
    """Files that differ, and what may be done with them."""

    def __init__(self, shop: Workshop, name: str, files: int, size: int) -> None:
        self._shop = shop
        self._path = shop.root / name
        self._home = shop.root / f"{name}-home"
        self._copy = shop.root / f"{name}-copy"
        for number in range(files):
            folder = self._path / str(number // 100)
            folder.mkdir(parents=True, exist_ok=True)
            _write(folder / str(number), size)
        os.sync()

    def save_new(self) -> float:
        """Into a store that has nothing of it."""
        shutil.rmtree(self._home, ignore_errors=True)
        os.sync()  # what was removed is no part of it
        return self.save()

    def save(self) -> float:
        with self._shop.script("save_checkpoint.py", self._path, self._home) as script:
            seconds: float = script.answer()
            return seconds

    def copy(self) -> float:
        return self._time_copy("cp", "-r", str(self._path), str(self._copy))

    def copy_and_sync(self) -> float:
        line = f"cp -r {self._path} {self._copy} && sync -f {self._copy}"
        return self._time_copy("sh", "-c", line)

    def remove(self) -> None:
        for path in (self._path, self._home, self._copy):
            shutil.rmtree(path, ignore_errors=True)

    def _time_copy(self, *argv: str) -> float:
        shutil.rmtree(self._copy, ignore_errors=True)
        os.sync()
        took = time_command(argv, self._shop.environment)
        shutil.rmtree(self._copy)
        return took


def _write(path: Path, size: int) -> None:
    with path.open("wb") as file:
        for start in range(0, size, 1 << 20):
            file.write(os.urandom(min(1 << 20, size - start)))
