"""Plans of trials: their work, their expected end, and the check of both."""

from __future__ import annotations

import dataclasses
import random
import signal
from pathlib import Path
from typing import Any

import windlass as wl
from harness import PATIENCE, eventually
from small_projects import import_copy

_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT, signal.SIGUSR1)


_functions = import_copy(Path(__file__).with_name("functions.py"))
deed, linger, is_forked = _functions.deed, _functions.linger, _functions.is_forked


def marks(folder: Path, name: str) -> list[int]:
    """Return the processes of each run."""
    path = folder / name
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


def warm_up() -> None:
    """Wait until a launcher is ready, so that later functions run in its forks."""
    eventually(lambda: bool(is_forked.submit().result(timeout=PATIENCE)), "a launcher is ready")


@dataclasses.dataclass(frozen=True)
class Plan:
    """A random plan of one trial, with its correct end."""

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

    def check(self, trial: wl.Trial[Any], folder: Path, printed: list[str]) -> None:
        """Check that the trial ended as planned, ran once, and logged each line once."""
        assert (trial.state, trial.exit_code) == (self.state, self.exit_code), self._about(trial)
        assert [attempt.exit_code for attempt in trial.attempts] == [self.exit_code], self._about(
            trial
        )
        assert len(marks(folder, self.name)) == 1, self._about(trial)
        for verb, stream in (("says", "stdout"), ("warns", "stderr")):
            kept = list(trial.logs(stream=stream))
            lines = self.lines(verb)
            assert kept[: len(lines)] == lines, self._about(trial)
            # A traceback may follow, but no further line of the function.
            assert not [line for line in kept[len(lines) :] if line.startswith(self.name)]
            assert [line for line in printed if f"{self.name} {verb} " in line] == lines
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
