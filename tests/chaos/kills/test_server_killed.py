"""If the server is killed repeatedly, no trial is lost and none runs twice."""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from chaos_seed import Chaos
from home_processes import HomeWorld, kill_all
from kill_sweep import Killer, Sweep
from planned_trials import Plan, linger, marks

import windlass as wl
from harness import PATIENCE, eventually


def test_a_repeatedly_killed_server_loses_nothing_and_runs_nothing_twice(
    world: HomeWorld, folder: Path, chaos: Chaos
) -> None:
    count, kills = chaos.pick(8, 30), chaos.pick(3, 25)
    chance = chaos.random
    plans = [Plan.draw(f"n{n}.", chance, lines=60, longest=0.1) for n in range(count)]
    # Some kills hit a starting server, some a server that has run for a while.
    moments = iter([chance.uniform(0, chance.choice([0.1, 0.5, 2])) for _ in range(kills)])
    early = chance.randrange(count)

    def strike() -> int:
        eventually(lambda: world.server() is not None, "somebody started a server")
        time.sleep(next(moments))
        return world.kill_server()

    killer, sweep = Killer(strike, chance, longest=0, most=kills), Sweep(folder)

    for plan in plans[:early]:
        sweep.submit(plan)
    killer.start()
    for plan in plans[early:]:
        sweep.submit(plan)
    while killer.is_alive():  # a request starts the server for the next kill
        with contextlib.suppress(wl.ServerUnreachable):
            wl.Client().server_info()
        killer.join(0.05)

    assert killer.kills == kills
    assert len(sweep.trials) == count
    sweep.check(lambda plan, trial, messages: plan.check(trial, folder, messages))
    world.check_idle()


@pytest.mark.thorough
def test_a_home_works_after_servers_were_killed_while_creating_it(
    world: HomeWorld, folder: Path, chaos: Chaos
) -> None:
    killer = Killer(
        lambda: kill_all(world.servers()), chaos.random, longest=1.0, most=chaos.pick(2, 20)
    )
    killer.start()
    sweep = Sweep(folder)
    sweep.submit(Plan.draw("first", chaos.random, lines=5, longest=0))
    while killer.is_alive():
        sweep.submit(Plan.draw(f"n{len(sweep.trials)}.", chaos.random, lines=5, longest=0))
    assert killer.kills > 0
    sweep.check(lambda plan, trial, messages: plan.check(trial, folder, messages))


@pytest.mark.thorough
def test_a_waiting_client_survives_kills_of_servers_before_they_are_ready(
    world: HomeWorld, folder: Path, chaos: Chaos
) -> None:
    trial = linger.submit("a", str(folder))
    eventually(lambda: bool(marks(folder, "a")), "it runs")
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(trial.result, timeout=PATIENCE)
        listening = pool.submit(lambda: list(trial.logs(follow=True)))
        for _ in range(chaos.pick(2, 15)):
            eventually(lambda: bool(world.servers()), "who waits starts a server")
            time.sleep(chaos.random.uniform(0, 0.5))
            kill_all(world.servers())
        (folder / "a.go").touch()
        assert waiting.result() == "a"
        assert listening.result() == ["a lingers"]
    assert len(marks(folder, "a")) == 1
