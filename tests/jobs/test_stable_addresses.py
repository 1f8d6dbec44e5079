"""Replicas keep their addresses after a restart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from harness import PATIENCE, eventually, kill_server
from replicas import LINGER, LITTLE, process_of, shell

TELL = 'told="$2/$WINDLASS_ROLE-$WINDLASS_INDEX.$WINDLASS_ATTEMPT"; '
TELL += 'env > "$told.part"; mv "$told.part" "$told"; '


def seen(folder: Path, attempt: str) -> dict[str, str]:
    """The environment of an attempt, once the attempt has reported it."""
    eventually((folder / attempt).exists, f"{attempt} told")
    lines = (folder / attempt).read_text().splitlines()
    return dict(line.partition("=")[::2] for line in lines if "=" in line)


def group(folder: Path, **sizes: int) -> wl.JobGroup:
    """A TensorFlow job whose replicas report their environment and run until they may exit."""
    run = shell(TELL + LINGER, folder / "go", folder)
    return wl.JobGroup(
        {
            name: wl.Job(run, executor=LITTLE, replicas=replicas, restart_policy="ExitCode")
            for name, replicas in sizes.items()
        },
        framework="tensorflow",
    )


def cluster_of(environment: dict[str, str]) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(environment["TF_CONFIG"])
    return record


@pytest.mark.case(12)
def test_all_replicas_have_one_cluster_without_the_evaluator(home: Path, tmp_path: Path) -> None:
    trial = group(tmp_path, chief=1, worker=2, ps=2, evaluator=1).submit()
    names = ["chief-0", "worker-0", "worker-1", "ps-0", "ps-1", "evaluator-0"]
    clusters = {name: cluster_of(seen(tmp_path, f"{name}.1")) for name in names}
    cluster = clusters["chief-0"]["cluster"]
    assert {name: len(addresses_of_role) for name, addresses_of_role in cluster.items()} == {
        "chief": 1,
        "worker": 2,
        "ps": 2,
    }
    addresses = [address for members in cluster.values() for address in members]
    assert len(set(addresses)) == 5
    for name, config in clusters.items():
        role, _, index = name.rpartition("-")
        assert config["cluster"] == cluster, name
        assert config["task"] == {"type": role, "index": int(index)}
    (tmp_path / "go").touch()
    assert trial.wait(timeout=PATIENCE).state == "SUCCEEDED", trial.message


@pytest.mark.case(12)
@pytest.mark.thorough
def test_addresses_stay_the_same_after_restarts_of_a_replica_and_of_the_server(
    fresh_home: Path, tmp_path: Path
) -> None:
    trial = group(tmp_path, chief=1, worker=2).submit()
    first = {name: seen(tmp_path, f"{name}.1") for name in ("chief-0", "worker-0", "worker-1")}
    process_of(trial, "worker-1").kill()
    second = seen(tmp_path, "worker-1.2")
    kill_server(fresh_home)
    process_of(trial, "chief-0").kill()
    trial.refresh()  # a request starts a server again
    third = seen(tmp_path, "chief-0.2")
    hosts = {environment["WINDLASS_HOSTS"] for environment in (*first.values(), second, third)}
    assert len(hosts) == 1
    assert set(json.loads(hosts.pop())) == {"chief", "worker"}
    assert cluster_of(second) == cluster_of(first["worker-1"])
    assert cluster_of(third) == cluster_of(first["chief-0"])
    (tmp_path / "go").touch()
    assert trial.wait(timeout=PATIENCE).state == "SUCCEEDED", trial.message
    assert trial.restarts == 2


@pytest.mark.case(12)
def test_a_single_replica_has_no_cluster(home: Path, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    trial = group(tmp_path, worker=1).submit()
    assert trial.wait(timeout=PATIENCE).state == "SUCCEEDED", trial.message
    assert "TF_CONFIG" not in seen(tmp_path, "worker-0.1")
