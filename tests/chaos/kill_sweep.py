"""Many trials at once, and a thread that kills processes meanwhile."""

from __future__ import annotations

import dataclasses
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from planned_trials import Plan

import windlass as wl
from harness import PATIENCE


class Killer(threading.Thread):
    """Kills at short random intervals until a number of kills is reached or `stop` is called."""

    def __init__(
        self,
        strike: Callable[[], int],
        chance: random.Random,
        *,
        longest: float,
        most: int | None = None,
    ) -> None:
        super().__init__(daemon=True)
        self.kills = 0
        self._strike = strike
        self._chance = random.Random(chance.random())  # separate from other draws
        self._longest = longest
        self._most = most
        self._enough = threading.Event()

    def run(self) -> None:
        while self._most is None or self.kills < self._most:
            if self._enough.wait(self._chance.uniform(0, self._longest)):
                return
            self.kills += self._strike()

    def stop(self) -> None:
        self._enough.set()
        self.join()


class Sweep:
    """Many trials, each followed from its beginning."""

    def __init__(self, folder: Path) -> None:
        self.trials: list[wl.Trial[Any]] = []
        self._folder = folder
        self._plans: dict[str, Plan] = {}
        self._printed: dict[str, list[str]] = {}
        self._listeners: list[threading.Thread] = []

    def submit(self, plan: Plan) -> None:
        """Submit a trial, under a new name if the result of a submission is unknown."""
        self._plans[plan.name] = plan
        try:
            trial = plan.submit(self._folder)
        except wl.ServerUnreachable:  # killed at each try
            self.submit(dataclasses.replace(plan, name=plan.name + "x"))
            return
        self.trials.append(trial)
        self._printed[plan.name] = []
        listener = threading.Thread(target=self._listen, args=(plan, trial), daemon=True)
        listener.start()
        self._listeners.append(listener)

    def wait(self) -> None:
        """Wait for the end of each trial and of its log."""
        for trial in self.trials:
            trial.wait(timeout=PATIENCE)
        for listener in self._listeners:
            listener.join(PATIENCE)
            assert not listener.is_alive(), "a log that is followed ends with its trial"

    def check(self, check: Callable[[Plan, wl.Trial[Any], list[str]], None]) -> None:
        """Check that every trial is recorded once and ended as planned."""
        self.wait()
        recorded = {str(trial.params["name"]): trial for trial in wl.list_trials()}
        assert {trial.id for trial in self.trials} <= {trial.id for trial in recorded.values()}
        for name, trial in recorded.items():
            printed = (
                self._printed[name] if name in self._printed else list(trial.logs(follow=True))
            )
            check(self._plans[name], trial.wait(timeout=PATIENCE), printed)
        assert len(recorded) == len(list(wl.list_trials())), "each was recorded once"
        done = {path.name for path in self._folder.iterdir()}
        assert done <= recorded.keys(), "nothing ran of which there is no record"

    def _listen(self, plan: Plan, trial: wl.Trial[Any]) -> None:
        self._printed[plan.name] += trial.logs(follow=True)
