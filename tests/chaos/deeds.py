"""What the trials of these tests do. Each leaves a mark, so that a second run is seen."""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import windlass as wl

PATIENCE = 120.0  # a limit for what has gone wrong, never a measure
_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT, signal.SIGUSR1)


def mark(folder: str, name: str) -> None:
    """Write down that this ran, and as which process: one line a run."""
    fd = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, b"%d\n" % os.getpid())
    os.close(fd)


def marks(folder: Path, name: str) -> list[int]:
    """The processes of each run there was."""
    path = folder / name
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


@wl.run(cpus=0.05)
def deed(name: str, folder: str, pauses: list[float], way: str, what: Any) -> Any:
    """Write lines to both streams, a pause after each, and end in one of many ways."""
    mark(folder, name)
    for number, pause in enumerate(pauses):
        print(f"{name} says {number}")
        print(f"{name} warns {number}", file=sys.stderr)
        time.sleep(pause)
    if way == "raise":
        raise LookupError(name, what)
    if way == "exit":
        sys.exit(what)
    if way == "signal":
        os.kill(os.getpid(), what)
    return [name, what]


@wl.run(cpus=0.05)
def linger(name: str, folder: str, daemons: int = 0) -> str:
    """Run until a file says go, with daemons that nobody but us will ever end."""
    for _ in range(daemons):
        _daemonise(folder, f"{name}.daemons")
    mark(folder, name)
    print(f"{name} lingers", flush=True)
    deadline = time.monotonic() + PATIENCE
    while not os.path.exists(os.path.join(folder, f"{name}.go")):
        assert time.monotonic() < deadline, "nobody said go"
        time.sleep(0.01)
    return name


def _daemonise(folder: str, note: str) -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 3)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            mark(folder, note)
            while True:
                time.sleep(0.05)
        os._exit(0)
    os.wait()


@dataclasses.dataclass(frozen=True)
class Plan:
    """One deed before it is done: all of it drawn from chance, and how it must end."""

    name: str
    pauses: list[float]
    way: str
    what: Any

    @classmethod
    def draw(cls, name: str, chance: random.Random, *, lines: int, longest: float) -> Plan:
        way = chance.choice(["value", "value", "raise", "exit", "signal"])
        what = {
            "exit": chance.randrange(1, 126),
            "signal": int(chance.choice(_SIGNALS)),
        }.get(way, chance.random())
        pauses = [chance.uniform(0, longest) for _ in range(chance.randrange(1, lines))]
        return cls(name, pauses, way, what)

    def submit(self, folder: Path) -> wl.Trial[Any]:
        return deed.submit(self.name, str(folder), self.pauses, self.way, self.what)

    @property
    def exit_code(self) -> int:
        codes = {"value": 0, "raise": 1, "exit": self.what, "signal": 128 + int(self.what)}
        return int(codes[self.way])

    @property
    def state(self) -> str:
        return "SUCCEEDED" if self.way == "value" else "FAILED"

    def lines(self, verb: str) -> list[str]:
        return [f"{self.name} {verb} {number}" for number in range(len(self.pauses))]

    def check(self, trial: wl.Trial[Any], folder: Path, told: list[str]) -> None:
        """It ended as it must, ran once, and wrote every line once: kept, and told as it ran."""
        assert (trial.state, trial.exit_code) == (self.state, self.exit_code), self._about(trial)
        assert [each.exit_code for each in trial.attempts] == [self.exit_code], self._about(trial)
        assert len(marks(folder, self.name)) == 1, self._about(trial)
        for verb, stream in (("says", "stdout"), ("warns", "stderr")):
            kept = list(trial.logs(stream=stream))
            lines = self.lines(verb)
            assert kept[: len(lines)] == lines, self._about(trial)
            # A traceback may follow, but never another of our lines.
            assert not [line for line in kept[len(lines) :] if line.startswith(self.name)]
            assert [line for line in told if f"{self.name} {verb} " in line] == lines
        self._check_outcome(trial)

    def _check_outcome(self, trial: wl.Trial[Any]) -> None:
        if self.way == "value":
            assert trial.result(timeout=PATIENCE) == [self.name, self.what]
            return
        try:
            value = trial.result(timeout=PATIENCE)
        except LookupError as error:
            assert (self.way, error.args) == ("raise", (self.name, self.what))
        except wl.TrialFailed as failed:
            name = signal.Signals(self.what).name if self.way == "signal" else None
            assert (failed.exit_code, failed.signal) == (self.exit_code, name)
        else:
            raise AssertionError(f"{self} came back with {value!r}")

    def _about(self, trial: wl.Trial[Any]) -> str:
        return f"trial {trial.id}: {self}, {trial.state}, {trial.exit_code}: {trial.message}"
