"""Under random kills, no replica runs twice, no restart counts twice, every end is correct.

Server, supervisors and processes are killed at random. The plan of each job and the kills determine
its correct result.
"""

from __future__ import annotations

import contextlib
import random
import time
from pathlib import Path

import pytest
from chaos_seed import Chaos
from home_processes import HomeWorld
from kill_sweep import Killer
from planned_jobs import Fate, Fates

import windlass as wl

pytestmark = pytest.mark.thorough


def test_jobs_end_correctly_and_run_nothing_twice_under_random_kills(
    world: HomeWorld, folder: Path, chaos: Chaos
) -> None:
    count, longest = chaos.pick(14, 50), chaos.pick(1.0, 2.0)
    plans = [Fate.draw(f"n{n}", chaos.random, longest) for n in range(count)]
    fates = Fates(folder)
    killer = Killer(
        lambda: _strike(world, fates, killer_chance), chaos.random, longest=chaos.pick(0.3, 0.2)
    )
    killer_chance = random.Random(chaos.random.random())
    killer.start()
    for plan in plans:
        fates.submit(plan)
    until = time.monotonic() + chaos.pick(3.0, 20.0)
    while time.monotonic() < until:  # a request starts the server for the next kill
        with contextlib.suppress(wl.ServerUnreachable):
            wl.Client().server_info()
        time.sleep(0.05)
    killer.stop()
    print(f"{killer.kills} kills, {fates.killed} of them of replicas")
    assert killer.kills > fates.killed > 0, "the server and replicas of it were killed"
    fates.check()
    world.check_idle()


def _strike(world: HomeWorld, fates: Fates, chance: random.Random) -> int:
    if chance.random() < 0.3:
        return int(world.kill_server())
    return fates.kill_some(chance)
