"""The server is killed again and again under its trials: nothing is lost, nothing runs twice."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from chance import Chaos
from deeds import PATIENCE, Plan, linger, marks
from home_world import HomeWorld, kill

import windlass as wl
from harness import eventually


class Killer(threading.Thread):
    """Kills each server of a home so many seconds after it came."""

    def __init__(self, world: HomeWorld, moments: list[float]) -> None:
        super().__init__(daemon=True)
        self.kills = 0
        self._world = world
        self._moments = moments

    def run(self) -> None:
        for moment in self._moments:
            # A server that is not there is for the next call to start.
            eventually(lambda: self._world.server() is not None, "somebody started a server")
            time.sleep(moment)
            self.kills += self._world.kill_server()


class Sweep:
    """Many deeds, all listened to from their beginning."""

    def __init__(self, folder: Path) -> None:
        self.trials: list[wl.Trial[Any]] = []
        self._folder = folder
        self._plans: dict[str, Plan] = {}
        self._told: dict[str, list[str]] = {}
        self._listeners: list[threading.Thread] = []

    def submit(self, plan: Plan) -> None:
        """Submit a deed, under a new name if nobody can tell whether it came through."""
        self._plans[plan.name] = plan
        try:
            trial = plan.submit(self._folder)
        except wl.ServerUnreachable:  # killed each time that it was tried
            self.submit(dataclasses.replace(plan, name=plan.name + "x"))
            return
        self.trials.append(trial)
        self._told[plan.name] = []
        listener = threading.Thread(target=self._listen, args=(plan, trial), daemon=True)
        listener.start()
        self._listeners.append(listener)

    def check(self) -> None:
        """Every deed that anyone knows of was done once, whole, and as it was planned."""
        for trial in self.trials:
            trial.wait(timeout=PATIENCE)
        for listener in self._listeners:
            listener.join(PATIENCE)
            assert not listener.is_alive(), "a log that is followed ends with its trial"
        recorded = {str(trial.params["name"]): trial for trial in wl.list_trials()}
        assert {trial.id for trial in self.trials} <= {trial.id for trial in recorded.values()}
        for name, trial in recorded.items():
            told = self._told[name] if name in self._told else list(trial.logs(follow=True))
            self._plans[name].check(trial.wait(timeout=PATIENCE), self._folder, told)
        assert len(recorded) == len(list(wl.list_trials())), "each was recorded once"
        done = {path.name for path in self._folder.iterdir()}
        assert done == recorded.keys(), "nothing ran of which there is no record"

    def _listen(self, plan: Plan, trial: wl.Trial[Any]) -> None:
        self._told[plan.name] += trial.logs(follow=True)


def test_a_server_killed_over_and_over_loses_nothing_and_runs_nothing_twice(
    world: HomeWorld, folder: Path, chaos: Chaos
) -> None:
    count, kills = chaos.pick(10, 30), chaos.pick(4, 25)
    chance = chaos.random
    plans = [Plan.draw(f"n{n}.", chance, lines=60, longest=0.1) for n in range(count)]
    # Some right after its start, some when it has been there for a while.
    moments = [chance.uniform(0, chance.choice([0.1, 0.5, 2])) for _ in range(kills)]
    early = chance.randrange(count)
    killer, sweep = Killer(world, moments), Sweep(folder)

    for plan in plans[:early]:
        sweep.submit(plan)
    killer.start()
    for plan in plans[early:]:
        sweep.submit(plan)
    while killer.is_alive():  # who asks starts a server for the next kill
        with contextlib.suppress(wl.ServerUnreachable):
            wl.Client().server_info()
        killer.join(0.05)

    assert killer.kills == kills
    assert len(sweep.trials) == count
    sweep.check()
    world.check_idle()


def test_who_waits_goes_on_though_servers_are_killed_before_they_are_ready(
    world: HomeWorld, folder: Path, chaos: Chaos
) -> None:
    trial = linger.submit("a", str(folder))
    eventually(lambda: bool(marks(folder, "a")), "it runs")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(trial.result, timeout=PATIENCE)
        for _ in range(chaos.pick(3, 15)):
            eventually(lambda: bool(world.servers()), "who waits starts a server")
            time.sleep(chaos.random.uniform(0, 0.5))
            for server in world.servers():
                kill(server)
        (folder / "a.go").touch()
        assert waiting.result() == "a"
    assert len(marks(folder, "a")) == 1
