"""Generators: trials that a function in the author's process builds from jobs."""

from __future__ import annotations

import asyncio
import functools
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from harness import Project, eventually, kill_server, stop_trials
from pseudo_terminal import PREAMBLE, Launch

SHARES_HOME = True

LITTLE = wl.Local(cpus=0.1)
PARAMS = {"lr": 0.1, "layers": 2}


@pytest.fixture(autouse=True)
def tidy(home: Path) -> Iterator[None]:
    yield
    stop_trials(home)


def echo(*words: str) -> wl.Job:
    return wl.Job(wl.Command(["echo", *words]), executor=LITTLE, name="echo")


def gated(gate: Path, *then: str) -> wl.Job:
    """A job that waits for a file, then runs a command."""
    script = f'until [ -e "{gate}" ]; do sleep 0.01; done; {" ".join(then) or "true"}'
    return wl.Job(wl.Command(["sh", "-c", script]), executor=LITTLE, name="gated")


def test_a_generator_builds_its_trial_from_jobs(home: Path) -> None:
    def build(trial: wl.Trial[Any], lr: float, layers: int = 2) -> None:
        for seed in range(layers):
            trial.add(echo(), args={"seed": seed})

    with wl.create_experiment("built") as exp:
        trial = exp.add(build, args={"lr": 0.1}, labels=["first"], name="two")
        assert trial.state == "RUNNING"  # available at once
    trial.wait()
    assert trial.state == "SUCCEEDED"
    assert trial.result() is None
    assert (trial.name, trial.params, trial.record.labels) == ("two", PARAMS, ("first",))
    children = trial.children
    assert [child.params["seed"] for child in children] == [0, 1]
    assert all(child.params["lr"] == 0.1 for child in children)  # in addition to its own
    assert [list(child.logs()) for child in children] == [["--seed=0"], ["--seed=1"]]
    parent = children[0].parent
    assert parent is not None
    assert parent.id == trial.id
    assert trial.parent is None
    assert exp.wait().states == {"SUCCEEDED": 3}


def test_the_arguments_of_a_job_override_the_arguments_of_its_generator(home: Path) -> None:
    def build(trial: wl.Trial[Any], lr: float) -> None:
        trial.add(echo(), args={"lr": lr / 10})

    with wl.create_experiment("own") as exp:
        trial = exp.add(build, args={"lr": 1.0})
    [child] = trial.children
    assert child.params["lr"] == 0.1
    assert list(child.wait().logs()) == ["--lr=0.1"]


def test_the_trial_runs_until_all_added_trials_have_ended(home: Path, gate: Path) -> None:
    def build(trial: wl.Trial[Any]) -> None:
        trial.add(gated(gate))

    with wl.create_experiment("lasting") as exp:
        trial = exp.add(build)
    assert trial.refresh().state == "RUNNING"  # its generator has returned
    gate.touch()
    assert trial.wait().state == "SUCCEEDED"


def test_a_generator_may_wait_for_its_added_trials(home: Path) -> None:
    """A generator runs in the process of its author, so it may use any closure."""
    lock, seen = threading.Lock(), []

    def build(trial: wl.Trial[Any]) -> None:
        first = trial.add(wl.run(lambda: 3, cpus=0.1)).result()
        with lock:
            seen.append(first)
        trial.add(echo(str(first)))

    with wl.create_experiment("steps") as exp:
        trial = exp.add(build)
    assert seen == [3]
    assert list(trial.children[1].wait().logs()) == ["3"]


def test_async_generators_run_concurrently(home: Path, gate: Path) -> None:
    """Each waits for a job that the other one releases."""

    def wait_and_open(trial: wl.Trial[Any], mine: Path, other: Path) -> wl.Trial[Any]:
        other.touch()
        return trial.add(gated(mine))

    async def build(trial: wl.Trial[Any], mine: Path, other: Path) -> None:
        assert await wait_and_open(trial, mine, other) is None

    one, two = gate.with_name("one"), gate.with_name("two")
    with wl.create_experiment("side-by-side") as exp:
        exp.add(build, args={"mine": one, "other": two})
        exp.add(build, args={"mine": two, "other": one})
    assert exp.wait().states == {"SUCCEEDED": 4}


def test_consecutive_generators_share_a_thread(home: Path) -> None:
    async def build(trial: wl.Trial[Any]) -> None:
        threads.add(threading.current_thread())

    threads: set[threading.Thread] = set()
    for number in range(3):
        exp = wl.create_experiment(f"shared-{number % 2}")
        exp.add(build).wait()
        with exp:  # also for the next one: no generator runs any more
            pass
    assert len(threads) == 1


def test_in_an_async_block_generators_run_on_its_loop(home: Path) -> None:
    async def main() -> wl.Experiment:
        loops = []

        async def build(trial: wl.Trial[Any]) -> None:
            loops.append(asyncio.get_running_loop())
            await trial.add(echo())

        def plain(trial: wl.Trial[Any]) -> None:
            loops.append(threading.current_thread())
            trial.add(echo())

        async with wl.create_experiment("async") as exp:
            trials = [exp.add(build), exp.add(plain)]
        assert asyncio.get_running_loop() in loops
        assert threading.current_thread() not in loops
        await asyncio.gather(*trials)
        return await exp

    assert asyncio.run(main()).states == {"SUCCEEDED": 4}


def test_methods_partials_and_callable_objects_are_generators_too(home: Path) -> None:
    class Builder:
        def build(self, trial: wl.Trial[Any], word: str) -> None:
            trial.add(echo(word))

        async def __call__(self, trial: wl.Trial[Any], word: str) -> None:
            self.build(trial, word)

    with wl.create_experiment("callables") as exp:
        exp.add(Builder().build, args={"word": "method"})
        exp.add(Builder(), args={"word": "object"}, name="object")
        exp.add(functools.partial(Builder().build, word="partial"))
    exp.wait()
    assert exp.states == {"SUCCEEDED": 6}
    lines = {line for trial in exp.list_trials() if trial.name == "echo" for line in trial.logs()}
    assert lines == {"method", "object", "partial"}


def test_a_generator_may_add_generators(home: Path) -> None:
    def leaf(trial: wl.Trial[Any], word: str) -> None:
        trial.add(echo(word))

    def root(trial: wl.Trial[Any]) -> None:
        for word in ("a", "b"):
            trial.add(leaf, args={"word": word})

    with wl.create_experiment("nested") as exp:
        trial = exp.add(root)
    assert trial.wait().state == "SUCCEEDED"
    assert [child.name for child in trial.children] == ["leaf", "leaf"]
    assert [grand.name for child in trial.children for grand in child.children] == ["echo"] * 2


def test_many_generators_run_at_once(home: Path) -> None:
    def build(trial: wl.Trial[Any], number: int) -> None:
        trial.add(wl.Job(wl.Command(["true"]), executor=wl.Local(cpus=0.01)))

    with wl.create_experiment("many", wait=True) as exp:
        trials = [exp.add(build, args={"number": number}) for number in range(8)]
    assert exp.states == {"SUCCEEDED": 16}
    assert [len(trial.children) for trial in trials] == [1] * 8


# -- failures -------------------------------------------------------------------------


def test_a_generator_that_raises_fails_its_trial_and_the_others_continue(
    home: Path, gate: Path
) -> None:
    def fine(trial: wl.Trial[Any]) -> None:
        trial.add(gated(gate))

    def flawed(trial: wl.Trial[Any], lr: float) -> None:
        trial.add(gated(gate))
        raise ValueError(f"no such lr: {lr}")

    async def also(trial: wl.Trial[Any]) -> None:
        raise KeyError("second")

    with pytest.raises(wl.LaunchFailed) as raised, wl.create_experiment("flawed") as exp:
        good = exp.add(fine)
        bad = exp.add(flawed, args={"lr": -1})
        worse = exp.add(also)
    message = str(raised.value)
    assert f"2 generators of experiment {exp.id} (flawed) failed." in message
    assert f"trial {bad.id} (flawed): ValueError: no such lr: -1" in message
    assert f"trial {worse.id} (also): KeyError: 'second'" in message
    assert {type(error) for error in raised.value.errors} == {ValueError, KeyError}
    assert raised.value.__cause__ is raised.value.errors[0]
    bad.refresh()
    assert bad.state == "FAILED"
    assert bad.message == "ValueError: no such lr: -1"
    assert bad.error is not None
    assert 'raise ValueError(f"no such lr: {lr}")' in bad.error.traceback
    assert "building.py" not in bad.error.traceback
    with pytest.raises(wl.RemoteError, match="no such lr"):
        bad.result()
    [added] = bad.children
    assert added.state in ("STARTING", "RUNNING")  # added trials continue
    gate.touch()
    assert added.wait().state == "SUCCEEDED"
    assert good.wait().state == "SUCCEEDED"


def test_a_generator_with_an_unprintable_error_fails_like_any_other(home: Path) -> None:
    """Otherwise the block would wait forever for a generator without a reported end."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("nothing to say")

    def mute(trial: wl.Trial[Any]) -> None:
        raise Mute

    def endless(trial: wl.Trial[Any]) -> None:
        raise ValueError("x" * 50_000_000)  # more than a request may have

    with pytest.raises(wl.LaunchFailed) as raised, wl.create_experiment("untold") as exp:
        trials = [exp.add(mute), exp.add(endless)]
    assert "Mute: <its text cannot be shown>" in str(raised.value)
    assert len(str(raised.value)) < 10_000
    assert {trial.refresh().state for trial in trials} == {"FAILED"}
    assert trials[0].message.endswith("Mute: <its text cannot be shown>")
    assert trials[1].message.startswith("ValueError: xxx")


def test_a_program_without_stderr_ends_although_its_generator_failed(
    home: Path, project: Project
) -> None:
    project.write(
        "closed.py",
        """
        import sys
        import windlass as wl

        def build(trial):
            sys.stderr.close()
            raise ValueError("untold")

        wl.create_experiment("closed").add(build)
        """,
    )
    assert project.python("closed.py").returncode == 0
    [trial] = wl.list_trials(experiment="closed")
    assert trial.message == "ValueError: untold"


def test_a_job_that_cannot_be_launched_fails_the_generator(home: Path) -> None:
    def build(trial: wl.Trial[Any]) -> None:
        trial.add(wl.Job(wl.Command(["true"]), executor=wl.Local(cpus=100_000)))

    exp = wl.create_experiment("large")
    with pytest.raises(wl.LaunchFailed, match="needs 100000 CPUs") as raised, exp:
        exp.add(build)
    assert isinstance(raised.value.__cause__, wl.ResourceError)


def test_a_failed_child_fails_the_trial_in_the_end(home: Path, gate: Path) -> None:
    def build(trial: wl.Trial[Any]) -> None:
        trial.add(wl.Job(wl.Command(["false"]), executor=LITTLE))
        trial.add(gated(gate))

    with wl.create_experiment("child") as exp:
        trial = exp.add(build)
    first, _ = trial.children
    first.wait()
    assert trial.refresh().state == "RUNNING"
    gate.touch()
    assert trial.wait().state == "FAILED"
    assert trial.message == f"1 of 2 trials failed: {first.id}"
    with pytest.raises(wl.TrialFailed, match="1 of 2 trials failed"):
        trial.result()


def test_stopping_the_trial_stops_all_children(home: Path, gate: Path) -> None:
    is_stopped = threading.Event()
    refused: list[BaseException] = []

    def build(trial: wl.Trial[Any]) -> None:
        for _ in range(2):
            trial.add(gated(gate))
        is_stopped.wait()
        try:
            trial.add(echo())
        except wl.Conflict as error:
            refused.append(error)

    with wl.create_experiment("stopped") as exp:
        trial = exp.add(build)
        eventually(lambda: len(trial.children) == 2, "both are added")
        trial.stop(reason="enough")
        assert trial.wait().state == "STOPPED"
        is_stopped.set()
    assert {child.state for child in trial.children} == {"STOPPED"}
    assert "so nothing can be added to it" in str(refused[0])
    assert trial.message == "enough"


def test_a_child_stopped_by_a_user_stops_its_trial(home: Path, gate: Path) -> None:
    def build(trial: wl.Trial[Any]) -> None:
        trial.add(gated(gate))

    with wl.create_experiment("half") as exp:
        trial = exp.add(build)
    trial.children[0].stop()
    assert trial.wait().state == "STOPPED"


def test_adding_to_a_finished_generator_or_a_plain_trial_is_refused(home: Path) -> None:
    with wl.create_experiment("done") as exp:
        trial = exp.add(lambda trial: None, name="nothing")
        plain = exp.add(echo())
    assert trial.wait().state == "SUCCEEDED"
    with pytest.raises(wl.Conflict, match="nothing can be added"):
        trial.add(echo())
    with pytest.raises(wl.InvalidArgument, match="has no generator"):
        plain.add(echo())


def test_an_identity_creates_one_trial_and_runs_its_generator_once(home: Path) -> None:
    runs = []

    def build(trial: wl.Trial[Any]) -> None:
        runs.append(trial.id)
        trial.add(echo(), identity="the child")

    with wl.create_experiment("once") as exp:
        first = exp.add(build, identity="a")
        again = exp.add(build, identity="a")
        exp.add(build, identity="b")  # its child exists
    assert first.id == again.id
    assert len(runs) == 2
    with wl.get_experiment(exp.id) as exp:
        assert exp.add(build, identity="a").id == first.id
    assert len(runs) == 2
    assert len(list(exp.list_trials())) == 3


def test_an_invalid_generator_is_refused_with_a_hint(home: Path) -> None:
    def yields(trial: wl.Trial[Any]) -> Iterator[wl.Job]:
        yield echo()

    def takes(trial: wl.Trial[Any], lr: float) -> None: ...

    exp = wl.create_experiment("refused")
    with pytest.raises(wl.Unsupported, match="contains a yield"):
        exp.add(yields)
    with pytest.raises(wl.InvalidArgument, match="by name"):
        exp.add(takes, args=[0.1])
    with pytest.raises(wl.InvalidArgument, match="pass env= to trial"):
        exp.add(takes, args={"lr": 1}, env={"A": "b"})
    with pytest.raises(wl.InvalidArgument, match="missing a required argument: 'lr'"):
        exp.add(takes)
    with pytest.raises(wl.InvalidArgument) as mistaken:  # it was meant as the trial itself
        exp.add(lambda lr: lr, args={"lr": 0.1})
    assert "with its trial as the first argument" in (mistaken.value.hint or "")
    assert "wl.PythonFunction(lambda)" in (mistaken.value.hint or "")
    with pytest.raises(wl.InvalidArgument, match="is a class"):
        exp.add(dict)
    assert exp.refresh().state == "EMPTY"


def test_a_generator_trial_has_no_processes_to_suspend_or_scale(home: Path, gate: Path) -> None:
    def build(trial: wl.Trial[Any]) -> None:
        trial.add(gated(gate))

    with wl.create_experiment("steered") as exp:
        trial = exp.add(build)
    for steer in (trial.suspend, lambda: trial.scale(2)):
        with pytest.raises(wl.Conflict, match="has no processes of its own"):
            steer()
    gate.touch()
    assert trial.wait().state == "SUCCEEDED"


# -- kills and interrupts --------------------------------------------------------------

BUILD = f"""{PREAMBLE}
def build(trial, gate):
    script = f'until [ -e "{{gate}}" ]; do sleep 0.01; done'
    trial.add(wl.Job(wl.Command(["sh", "-c", script]), executor=wl.Local(cpus=0.1)))
    print("one is added", flush=True)
    wait_for(gate + ".more")
    trial.add(wl.Job(wl.Command(["true"]), executor=wl.Local(cpus=0.1)))

"""


def in_block(arguments: str) -> str:
    """A program that builds in a block of a new experiment."""
    add = 'exp.add(build, args={"gate": sys.argv[1]})'
    return f"{BUILD}with wl.create_experiment({arguments}) as exp:\n    {add}\n"


def test_a_killed_author_fails_the_trial_and_its_jobs_continue(
    home: Path, project: Project, gate: Path
) -> None:
    project.write("build.py", in_block('"author-killed"'))
    author = project.start("build.py", gate)
    assert author.stdout is not None
    assert author.stdout.readline() == "one is added\n"
    [trial] = wl.list_trials(name="build", experiment="author-killed")
    author.send_signal(signal.SIGKILL)
    author.communicate()
    assert trial.wait(60).state == "FAILED"
    assert "ended before the generator was done" in trial.message
    [child] = trial.children
    assert not child.is_finished
    gate.touch()
    assert child.wait().state == "SUCCEEDED"
    assert wl.get_experiment("author-killed").state == "FAILED"


@pytest.mark.thorough
def test_a_restarted_server_continues_the_generator(
    fresh_home: Path, project: Project, gate: Path
) -> None:
    project.write("build.py", in_block('"server", wait=True'))
    author = project.start("build.py", gate)
    assert author.stdout is not None
    assert author.stdout.readline() == "one is added\n"
    kill_server(fresh_home)
    gate.with_name(gate.name + ".more").touch()
    gate.touch()
    _, output = author.communicate()
    assert author.returncode == 0, output
    [trial] = wl.list_trials(name="build")
    assert trial.state == "SUCCEEDED"
    assert len(trial.children) == 2


@pytest.mark.thorough
def test_killing_author_and_server_together_leaves_a_failed_trial(
    fresh_home: Path, project: Project, gate: Path
) -> None:
    project.write("build.py", in_block('"both"'))
    author = project.start("build.py", gate)
    assert author.stdout is not None
    assert author.stdout.readline() == "one is added\n"
    author.send_signal(signal.SIGKILL)
    kill_server(fresh_home)
    author.communicate()
    [trial] = wl.list_trials(name="build")  # a server is started for it
    assert trial.state == "RUNNING"  # its author may still return
    assert trial.wait(90).state == "FAILED"
    gate.touch()
    assert trial.children[0].wait().state == "SUCCEEDED"


@pytest.mark.thorough
def test_the_last_child_may_end_without_a_server(
    fresh_home: Path, project: Project, gate: Path
) -> None:
    def build(trial: wl.Trial[Any]) -> None:
        trial.add(gated(gate, f'touch "{gate}.done"'))

    with wl.create_experiment("away") as exp:
        trial = exp.add(build)
    eventually(lambda: trial.children[0].state == "RUNNING", "it runs")
    kill_server(fresh_home)
    gate.touch()
    eventually(gate.with_name(gate.name + ".done").exists, "the job is done")
    assert trial.wait(60).state == "SUCCEEDED"


def test_ctrl_c_in_a_generator_detaches_and_lists_the_running_trials(
    home: Path, project: Project, launch: Launch, gate: Path
) -> None:
    project.write("build.py", in_block('"author-left"'))
    terminal = launch("build.py", gate, columns=200)
    terminal.wait_for("one is added")
    terminal.press(b"\x03")
    assert terminal.finish() == -signal.SIGINT
    [trial] = wl.list_trials(name="build", experiment="author-left")
    screen = "\n".join(terminal.lines)
    assert f"while building trial {trial.id}; trials that were already added continue." in screen
    assert f"windlass stop --experiment {trial.record.experiment_id}" in screen
    assert trial.state == "FAILED"  # at once: the program released it when it exited
    assert trial.message == "KeyboardInterrupt: interrupted"
    assert not trial.children[0].is_finished


def test_without_a_block_the_program_waits_for_its_generators_at_exit(
    home: Path, project: Project, gate: Path
) -> None:
    project.write(
        "build.py",
        BUILD
        + 'exp = wl.create_experiment("no-block")\nexp.add(build, args={"gate": sys.argv[1]})\n',
    )
    gate.touch()
    author = project.start("build.py", gate)
    assert author.stdout is not None
    assert author.stdout.readline() == "one is added\n"
    gate.with_name(gate.name + ".more").touch()
    _, output = author.communicate()
    assert (author.returncode, output) == (0, "")
    [trial] = wl.list_trials(name="build", experiment="no-block")
    assert trial.wait().state == "SUCCEEDED"
    assert len(trial.children) == 2


def test_a_generator_error_without_a_block_is_printed(home: Path, project: Project) -> None:
    project.write(
        "build.py",
        """
        import windlass as wl

        def build(trial):
            raise ValueError("nobody waits")

        wl.create_experiment("printed").add(build)
        """,
    )
    done = project.python("build.py")
    assert done.returncode == 0
    [trial] = wl.list_trials(name="build", experiment="printed")
    assert f"The generator of trial {trial.id} (build) failed:" in done.stderr
    assert "ValueError: nobody waits" in done.stderr
