"""Jobs, groups and experiments behave the same on this machine and in pods."""

from __future__ import annotations

import json
from typing import Any

import pytest

import windlass as wl
from harness import PATIENCE, eventually
from on_kubernetes.both_backends.backends import Backend
from on_kubernetes.runtime.trial_functions import double, fall_off
from replicas import exit_codes, wait_all

# Prints its environment, then runs until its trial is asked to stop.
STAY = """if True:
    import json, os, time
    import windlass as wl

    print(json.dumps(dict(os.environ)), flush=True)
    while not wl.should_stop():
        time.sleep(0.1)
"""


def staying(backend: Backend, **more: Any) -> wl.Job:
    """A job whose replicas run until they are asked to stop."""
    return backend.job("python3", "-u", "-c", STAY, **more)


def environments(trial: wl.Trial[Any]) -> list[dict[str, str]]:
    """The environment of each replica, in the order of their reports."""
    return [json.loads(line) for line in trial.logs()]


def test_an_experiment_has_added_trials_and_those_of_its_generator(backend: Backend) -> None:
    tell = backend.job("python3", "-c", "import sys; print(*sys.argv[1:])", name="tell")

    def build(trial: wl.Trial[Any], layers: int) -> None:
        for seed in range(layers):
            trial.add(tell, args={"seed": seed})

    with wl.create_experiment("sweep") as experiment:
        plain = experiment.add(backend.run(double), args={"number": 21}, labels=["first"])
        built = experiment.add(build, args={"layers": 2})
    experiment.wait(timeout=PATIENCE)
    assert experiment.states == {"SUCCEEDED": 4}
    assert plain.result() == 42
    assert [list(child.logs()) for child in built.children] == [["--seed=0"], ["--seed=1"]]
    again = plain.rerun({"number": 4})
    assert again.result(timeout=PATIENCE) == 8
    assert again.origin is not None and again.origin.id == plain.id


@pytest.mark.thorough
def test_a_search_runs_its_trials_and_finds_the_best(backend: Backend) -> None:
    search_result = wl.create_experiment("search").search(
        backend.run(fall_off), space={"x": wl.choice(1, 2, 3)}, metric="loss", method="grid"
    )
    assert (search_result.best_params, search_result.best_value) == ({"x": 2}, 0.0)
    assert search_result.counts == {"complete": 3}


def test_the_replicas_of_every_framework_have_the_addresses_of_the_others(backend: Backend) -> None:
    job = staying(backend)
    groups = {
        "tensorflow": wl.JobGroup(chief=job, ps=job, framework="tensorflow"),
        "torch": wl.JobGroup(master=job, worker=job, framework="torch"),
        "jax": wl.JobGroup(worker=staying(backend, replicas=2), framework="jax"),
    }
    trials = {name: group.submit() for name, group in groups.items()}
    environments_by_trial = {}
    for name, trial in trials.items():
        eventually(lambda trial=trial: len(environments(trial)) == 2, f"those of {name} run")
        environments_by_trial[name] = sorted(
            environments(trial), key=lambda environment: environment["WINDLASS_ROLE"]
        )
        environments_by_trial[name].sort(key=lambda environment: environment["WINDLASS_INDEX"])
        trial.ask_to_stop()
    wait_all(trials.values())
    assert {trial.state for trial in trials.values()} == {"SUCCEEDED"}

    for name, trial in trials.items():
        first, second = environments_by_trial[name]
        assert first["WINDLASS_HOSTS"] == second["WINDLASS_HOSTS"]
        if backend.namespace:
            assert "KUBECONFIG" not in first, "variables of this machine stay here"
        for address in _addresses(first):
            host, port = address.split(":")
            assert int(port) > 0
            assert host.startswith(f"wl-{trial.id}-" if backend.namespace else "127.0.0.1"), host
        assert len(set(_addresses(first))) == 2, "each has its own"

    chief, ps = environments_by_trial["tensorflow"]
    for values, role in ((chief, "chief"), (ps, "ps")):
        config = json.loads(values["TF_CONFIG"])
        assert config["cluster"] == json.loads(values["WINDLASS_HOSTS"])
        assert config["task"] == {"type": role, "index": 0}
    assert [environment.get("WINDLASS_RANK") for environment in (chief, ps)] == ["0", None]

    master, worker = environments_by_trial["torch"]
    [at] = json.loads(master["WINDLASS_HOSTS"])["master"]
    for rank, values in enumerate((master, worker)):
        assert f"{values['MASTER_ADDR']}:{values['MASTER_PORT']}" == at
        assert (values["RANK"], values["WORLD_SIZE"]) == (str(rank), "2")

    at = json.loads(environments_by_trial["jax"][0]["WINDLASS_HOSTS"])["worker"][0]
    for rank, values in enumerate(environments_by_trial["jax"]):
        assert values["JAX_COORDINATOR_ADDRESS"] == at
        assert f"{values['COORDINATOR_ADDRESS']}:{values['COORDINATOR_PORT']}" == at
        assert (values["PROCESS_ID"], values["NUM_PROCESSES"]) == (str(rank), "2")


def _addresses(environment: dict[str, str]) -> list[str]:
    return [at for role in json.loads(environment["WINDLASS_HOSTS"]).values() for at in role]


@pytest.mark.thorough
def test_a_job_shrinks_and_grows_without_affecting_the_remaining_replicas(backend: Backend) -> None:
    trial = wl.JobGroup(worker=staying(backend, replicas=2)).submit()

    def running() -> set[str]:
        replicas = trial.refresh().replicas
        return {
            f"{replica.name}.{replica.attempt}"
            for replica in replicas
            if replica.phase == "Running"
        }

    def ended() -> set[str]:
        attempts = trial.refresh().attempts
        return {
            f"{attempt.role}-{attempt.index}.{attempt.attempt}"
            for attempt in attempts
            if attempt.ended
        }

    eventually(lambda: len(environments(trial)) == 2, "both run")
    trial.scale(worker=1)
    eventually(lambda: ended() == {"worker-1.1"}, "the highest is gone")
    assert running() == {"worker-0.1"}
    trial.scale(worker=3)
    three = {"worker-0.1", "worker-1.2", "worker-2.1"}
    eventually(lambda: running() == three, "three run, with attempts that go on counting")
    eventually(lambda: len(environments(trial)) == 4, "the new ones have begun")
    [*_, last] = environments(trial)
    assert len(_addresses(last)) == 3
    trial.ask_to_stop()
    assert trial.wait(timeout=PATIENCE).state == "SUCCEEDED", trial.message
    assert trial.restarts == 0
    assert len(environments(trial)) == 4, "none was started but these"


@pytest.mark.thorough
def test_restart_policies_limits_and_deadlines_work(backend: Backend) -> None:
    again = "[ $WINDLASS_ATTEMPT != 1 ] || exit 137"
    worn_out = ("FAILED", "BackoffLimitExceeded")
    expected = {
        ("Always", "exit 0"): (*worn_out, [0, 0], 1),
        ("OnFailure", "exit 1"): (*worn_out, [1, 1], 1),
        ("ExitCode", "exit 1"): ("FAILED", "ReplicaFailed", [1], 0),
        ("ExitCode", "exit 137"): (*worn_out, [137, 137], 1),
        ("ExitCode", again): ("SUCCEEDED", "Completed", [137, 0], 1),
    }
    trials = {
        (policy, script): backend.job(
            "sh", "-c", script, restart_policy=policy, backoff_limit=1
        ).submit()
        for policy, script in expected
    }
    lasting = "[ $WINDLASS_ATTEMPT != 1 ] || exit 1; exec sleep 600"
    late = backend.job(
        "sh", "-c", lasting, restart_policy="OnFailure", active_deadline="20s"
    ).submit()
    wait_all([*trials.values(), late])
    ended = {
        case: (trial.state, trial.record.reason, exit_codes(trial, "main-0"), trial.restarts)
        for case, trial in trials.items()
    }
    assert ended == expected
    # The deadline applies to the job, including all attempts.
    assert (late.state, late.record.reason) == ("FAILED", "DeadlineExceeded")
    assert "its deadline of 20s" in late.message
    assert late.ended is not None and (late.ended - late.created).total_seconds() >= 20
    eventually(lambda: not backend.leftovers(), "nothing of them is left")
