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
_TIMES = 2  # saving may take twice as long as cp


@benchmark("checkpoint")
def measure_checkpoints(bench: Bench) -> Iterator[Figure]:
    """Measure new and unchanged files. For comparison, cp neither hashes nor waits for the disk."""
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
    """A folder of different files, and operations on it."""

    def __init__(self, shop: Workshop, name: str, files: int, size: int) -> None:
        self._shop = shop
        self._path = shop.root / name
        self._room = shop.root / f"{name}-room"
        self._home = self._room / "home"
        self._count = 0
        for number in range(files):
            folder = self._path / str(number // 100)
            folder.mkdir(parents=True, exist_ok=True)
            _write(folder / str(number), size)
        os.sync()

    def save_new(self) -> float:
        """Into a store that has nothing of it."""
        self._count += 1
        self._home = self._room / f"home-{self._count}"
        return self.save()

    def save(self) -> float:
        os.sync()
        with self._shop.script("save_checkpoint.py", self._path, self._home) as script:
            seconds: float = script.answer()
            return seconds

    def copy(self) -> float:
        return self._time_copy("cp -r {} {}")

    def copy_and_sync(self) -> float:
        return self._time_copy("cp -r {} {} && sync -f .")

    def remove(self) -> None:
        # All at once, and last: after many removals ext4 takes long to find room for new files.
        for path in (self._path, self._room):
            shutil.rmtree(path, ignore_errors=True)

    def _time_copy(self, line: str) -> float:
        self._count += 1
        self._room.mkdir(exist_ok=True)
        os.sync()
        words = line.format(self._path, self._room / f"copy-{self._count}")
        return time_command(("sh", "-c", f"cd {self._room} && {words}"), self._shop.environment)


def _write(path: Path, size: int) -> None:
    with path.open("wb") as file:
        for start in range(0, size, 1 << 20):
            file.write(os.urandom(min(1 << 20, size - start)))
