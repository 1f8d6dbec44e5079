"""If a program is killed while it calls or waits, its trial continues and keeps its value."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from chaos_seed import Chaos
from home_processes import HomeWorld
from planned_trials import marks

import windlass as wl
from harness import PATIENCE, Project, eventually

pytestmark = pytest.mark.thorough

PROGRAM = """
import os, sys, time
import windlass as wl

@wl.run(cpus=0.05)
def work(name, folder):
    with open(f"{folder}/{name}", "a") as marks:
        marks.write(f"{os.getpid()}\\n")
    while not os.path.exists(f"{folder}/{name}.go"):
        time.sleep(0.01)
    print(name, "is done")
    return name * 2

work(*sys.argv[1:])
"""


def test_the_value_of_a_call_outlives_the_program_that_waited_for_it(
    world: HomeWorld, folder: Path, project: Project, chaos: Chaos
) -> None:
    program = project.write("train.py", PROGRAM)
    names = [f"c{n}" for n in range(chaos.pick(3, 25))]
    # Kill one while it waits for certain, and the others at any point from their first instruction.
    for name in names:
        client = project.start(program, name, folder)
        if name == names[0]:
            eventually(lambda: bool(marks(folder, names[0])), "it runs, and is waited for")
        else:
            time.sleep(chaos.random.uniform(0, chaos.random.choice([0.3, 1.5])))
        client.kill()
        client.communicate()
        (folder / f"{name}.go").touch()
    trials = {str(trial.params["name"]): trial for trial in wl.list_trials()}
    assert len(trials) == len(list(wl.list_trials())), "a call makes one trial, or none"
    assert names[0] in trials
    for name in names:
        if name in trials:
            trial = wl.get_trial(trials[name].id)
            assert trial.result(timeout=PATIENCE) == name * 2
            assert list(trial.logs()) == [f"{name} is done"]
        assert len(marks(folder, name)) == (name in trials), name
    world.check_idle()
