"""If supervisors, processes or launchers are killed, ends are correct and no process stays."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import psutil
import pytest
from chaos_seed import Chaos
from home_processes import HomeWorld, is_running, kill_all
from kill_sweep import Killer, Sweep
from planned_trials import Plan, linger, marks, warm_up

import windlass as wl
from harness import PATIENCE, eventually

LOST = "its supervisor died; its remaining processes were killed"


@dataclasses.dataclass
class Victim:
    """A trial that runs until its gate opens, and the processes of it that the test kills."""

    name: str
    whom: tuple[str, ...]  # in that order, without a pause
    daemons: int
    retries: int

    @classmethod
    def draw(cls, name: str, chance: random.Random) -> Victim:
        whom = chance.choice(
            [
                ("supervisor",),
                ("process",),
                ("supervisor", "process"),
                ("process", "supervisor"),
            ]
        )
        return cls(name, whom, chance.randrange(3), chance.randrange(2))

    def start(self, world: HomeWorld, folder: Path) -> wl.Trial[str]:
        function = linger.options(retries=self.retries) if self.retries else linger
        trial = function.submit(self.name, str(folder), self.daemons)
        eventually(lambda: bool(marks(folder, self.name)), f"{self.name} runs")
        eventually(lambda: world.state(trial.id).get("stage") == "running", "that is written down")
        # Output that is still in a pipe is lost with the supervisor. Output in the log must stay.
        eventually(lambda: list(trial.logs()) == [f"{self.name} lingers"], "its line is kept")
        return trial

    @property
    def ends(self) -> set[tuple[int | None, str]]:
        """Return the exit code and signal of the killed attempt."""
        lost, killed = (None, ""), (137, "SIGKILL")
        if self.whom == ("process", "supervisor"):  # it may have recorded the end in time
            return {lost, killed}
        return {killed} if self.whom == ("process",) else {lost}

    def check(self, trial: wl.Trial[str], folder: Path) -> None:
        codes = [attempt.exit_code for attempt in trial.attempts]
        assert codes[0] in {code for code, _ in self.ends}, self
        if self.retries:
            assert (trial.state, codes[1:]) == ("SUCCEEDED", [0]), self
            assert trial.result() == self.name
        else:
            end = (trial.exit_code, trial.record.signal)
            assert trial.state == "FAILED", self
            assert end in self.ends, self
            assert (LOST if trial.exit_code is None else "SIGKILL") in trial.message, self
        assert len(marks(folder, self.name)) == len(codes) == 1 + self.retries, self
        assert list(trial.logs()) == [f"{self.name} lingers"] * len(codes), self
        daemons = marks(folder, f"{self.name}.daemons")
        assert len(daemons) == self.daemons * len(codes)
        assert not [pid for pid in daemons if is_running(pid)], self


@pytest.mark.finding("A15")
def test_temporary_files_of_a_killed_supervisor_are_removed(world: HomeWorld, folder: Path) -> None:
    trial = linger.submit("victim", str(folder), 0)
    eventually(lambda: world.state(trial.id).get("stage") == "running", "it runs")
    supervisor = psutil.Process(world.state(trial.id)["supervisor"]["pid"])
    [attempt] = world.home.glob(f"trials/{trial.id}/main-0/1")
    # A kill between the creation and the renaming of a file leaves such names.
    for name in (f"state.json.{supervisor.pid}-1.tmp", f"exit.json.{supervisor.pid}-1.once"):
        (attempt / name).write_text("{")
    supervisor.kill()
    assert trial.wait(timeout=PATIENCE).state == "FAILED"
    eventually(lambda: not [*attempt.glob("*.tmp"), *attempt.glob("*.once")], "they are gone")
    assert (attempt / "state.json").exists()


def test_a_trial_survives_the_kill_of_any_of_its_processes(
    world: HomeWorld, folder: Path, chaos: Chaos
) -> None:
    for is_server_there in (True, False):
        prefix = "with" if is_server_there else "without"
        count = chaos.pick(3, 24)
        victims = [Victim.draw(f"{prefix}-{n}", chaos.random) for n in range(count)]
        trials = [victim.start(world, folder) for victim in victims]
        states = [world.state(trial.id) for trial in trials]
        if not is_server_there:  # then the next server detects it
            world.kill_server()
        for victim, state in zip(victims, states, strict=True):
            kill_all([psutil.Process(state[who]["pid"]) for who in victim.whom])
            (folder / f"{victim.name}.go").touch()  # for the attempt after it
        for victim, trial in zip(victims, trials, strict=True):
            victim.check(trial.wait(timeout=PATIENCE), folder)
        world.check_idle()
        if is_server_there:
            warm_up()  # the first attempts are new processes, the others are forks


@pytest.mark.thorough
def test_launchers_killed_before_during_and_after_a_fork_harm_no_trial(
    world: HomeWorld, folder: Path, chaos: Chaos
) -> None:
    warm_up()
    forked = linger.submit("after", str(folder))
    eventually(lambda: bool(marks(folder, "after")), "a fork runs")
    kill_all(world.launchers())
    plan = Plan.draw("before", chaos.random, lines=5, longest=0)
    first = plan.submit(folder)  # the launcher it would have been forked from is dead
    (folder / "after.go").touch()
    assert forked.result(timeout=PATIENCE) == "after"
    assert len(marks(folder, "after")) == 1
    plan.check(first.wait(timeout=PATIENCE), folder, list(first.logs()))

    warm_up()
    count = chaos.pick(12, 300)
    plans = [Plan.draw(f"d{n}.", chaos.random, lines=5, longest=0.01) for n in range(count)]
    killer = Killer(lambda: kill_all(world.launchers()), chaos.random, longest=0.3)
    killer.start()
    trials = [plan.submit(folder) for plan in plans]
    for trial in trials:
        trial.wait(timeout=PATIENCE)
    killer.stop()
    assert killer.kills > 0
    for plan, trial in zip(plans, trials, strict=True):
        plan.check(trial, folder, list(trial.logs()))
    world.check_idle()


@pytest.mark.thorough
def test_under_random_kills_of_any_process_every_trial_ends_once(
    world: HomeWorld, folder: Path, chaos: Chaos
) -> None:
    """Any Windlass process may be killed at any moment of its life."""
    chance = chaos.random
    count = chaos.pick(8, 80)
    plans = [Plan.draw(f"n{n}.", chance, lines=30, longest=0.1) for n in range(count)]
    sweep = Sweep(folder)
    killer = Killer(lambda: _kill_one(world, chance), chance, longest=chaos.pick(0.5, 0.25))
    killer.start()
    for plan in plans:
        sweep.submit(plan)
    sweep.wait()
    killer.stop()
    assert killer.kills > 0
    sweep.check(lambda plan, trial, messages: _check_survivor(plan, trial, folder, messages))
    world.check_idle()


def _kill_one(world: HomeWorld, chance: random.Random) -> int:
    """Kill a process of a random kind, and return the number of killed processes."""
    kind = chance.choice(["server", "launcher", "youngest", "any", "any"])
    server, launchers = world.server(), world.launchers()
    # Processes of trials. A starting server is spared: without other targets, none would ever
    # start.
    spared = {server, *launchers, *world.servers()}
    others = [process for process in world.processes() if process not in spared]
    if kind == "youngest":  # the first moments of a process are the most interesting
        others.sort(key=_birth)
        others = others[-1:]
    of_kind = {"server": [server] if server else [], "launcher": launchers}.get(kind, others)
    return kill_all([chance.choice(of_kind)]) if of_kind else 0


def _birth(process: psutil.Process) -> float:
    try:
        return float(process.create_time())
    except psutil.NoSuchProcess:
        return 0.0


def _check_survivor(plan: Plan, trial: wl.Trial[Any], folder: Path, messages: list[str]) -> None:
    """Check that the trial ended as planned or as killed, and that its earlier output is there."""
    was_killed = trial.exit_code in (None, 137)  # by the test, or by itself
    if not was_killed:
        plan.check(trial, folder, messages)
        return
    runs = len(marks(folder, plan.name))
    about = f"{plan} became trial {trial.id}: {trial.exit_code}, {trial.message!r}"
    assert trial.state == "FAILED", about
    assert runs <= 1, about
    assert len(trial.attempts) == 1, about
    assert (trial.record.signal == "SIGKILL") == (trial.exit_code == 137), about
    for verb, stream in (("says", "stdout"), ("warns", "stderr")):
        kept = [line for line in trial.logs(stream=stream) if line.startswith(plan.name)]
        assert kept == plan.lines(verb)[: len(kept)], about
        assert [line for line in messages if f"{plan.name} {verb} " in line] == kept, about
