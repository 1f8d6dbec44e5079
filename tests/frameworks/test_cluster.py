"""The environment of replicas of each framework: whole dictionaries, for clusters of any shape."""

from __future__ import annotations

import json

import pytest

from windlass.frameworks import Cluster, Member, build_cluster, find_framework
from windlass.model.hardware.resources import Accelerator, Resources
from windlass.model.job import JobSpec, ProcessCall, Role

NOTHING = ProcessCall(argv=("true",))
SERVICES = ("ps", "evaluator")


def cluster(framework: str, **sizes: int) -> Cluster:
    """A cluster of these roles. Replica n of role r has the address r:n."""
    roles = tuple(
        Role(executable=NOTHING, name=name, replicas=size, service=name in SERVICES)
        for name, size in sizes.items()
    )
    addresses = {
        f"{name}-{index}": f"{name}:{index}"
        for name, size in sizes.items()
        for index in range(size)
    }
    return build_cluster(JobSpec(roles=roles, framework=framework), addresses)


def environment(framework: str, role: str, index: int, **sizes: int) -> dict[str, str]:
    members = cluster(framework, **sizes)
    return dict(find_framework(framework).environment(members, members.member(role, index)))


@pytest.mark.parametrize("role", ["worker", "chief", "master", "ps"])
def test_one_tensorflow_replica_has_no_cluster(role: str) -> None:
    assert environment("tensorflow", role, 0, **{role: 1}) == {}


@pytest.mark.parametrize(
    ("role", "index"),
    [("chief", 0), ("worker", 0), ("worker", 1), ("ps", 0), ("ps", 1), ("evaluator", 0)],
)
def test_tensorflow_knows_the_cluster_without_the_evaluator(role: str, index: int) -> None:
    variables = environment("tensorflow", role, index, chief=1, worker=2, ps=2, evaluator=1)
    assert set(variables) == {"TF_CONFIG"}
    assert json.loads(variables["TF_CONFIG"]) == {
        "cluster": {
            "chief": ["chief:0"],
            "worker": ["worker:0", "worker:1"],
            "ps": ["ps:0", "ps:1"],
        },
        "task": {"type": role, "index": index},
    }


def test_two_tensorflow_workers() -> None:
    assert json.loads(environment("tensorflow", "worker", 1, worker=2)["TF_CONFIG"]) == {
        "cluster": {"worker": ["worker:0", "worker:1"]},
        "task": {"type": "worker", "index": 1},
    }


def test_torch_uses_rank_0_as_its_meeting_point() -> None:
    assert environment("torch", "worker", 2, worker=4) == {
        "MASTER_ADDR": "worker",
        "MASTER_PORT": "0",
        "WORLD_SIZE": "4",
        "RANK": "2",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": "2",
        "PET_NNODES": "4",
        "PET_NODE_RANK": "2",
        "PET_NPROC_PER_NODE": "1",
        "PET_MASTER_ADDR": "worker",
        "PET_MASTER_PORT": "0",
    }


def test_the_torch_master_has_rank_0_in_any_declared_order() -> None:
    sizes = {"worker": 2, "master": 1}
    ranks = {
        (role, index): environment("torch", role, index, **sizes)["RANK"]
        for role, size in sizes.items()
        for index in range(size)
    }
    assert ranks == {("master", 0): "0", ("worker", 0): "1", ("worker", 1): "2"}
    assert environment("torch", "worker", 1, **sizes)["MASTER_ADDR"] == "master"


def test_torchrun_starts_a_process_for_each_accelerator() -> None:
    gpus = Resources(accelerator=Accelerator(kind="a100", count=8))
    spec = JobSpec(roles=(Role(executable=NOTHING, name="worker", replicas=2, resources=gpus),))
    members = build_cluster(spec, {}, "127.0.0.1")
    environ = find_framework("torch").environment(members, members.members[1])
    assert environ["PET_NPROC_PER_NODE"] == "8"
    assert (environ["PET_NNODES"], environ["PET_NODE_RANK"]) == ("2", "1")
    assert (environ["MASTER_ADDR"], environ["MASTER_PORT"]) == ("127.0.0.1", "")


def test_jax_uses_process_0_as_its_coordinator() -> None:
    assert environment("jax", "worker", 1, worker=2) == {
        "COORDINATOR_ADDRESS": "worker",
        "COORDINATOR_PORT": "0",
        "NUM_PROCESSES": "2",
        "PROCESS_ID": "1",
        "JAX_COORDINATOR_ADDRESS": "worker:0",
    }


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_service_is_not_a_peer(framework: str) -> None:
    assert environment(framework, "ps", 0, ps=1, worker=2) == {}
    first = environment(framework, "worker", 0, ps=1, worker=2)
    assert "2" in {first.get("WORLD_SIZE"), first.get("NUM_PROCESSES")}
    assert "0" in {first.get("RANK"), first.get("PROCESS_ID")}


def test_without_a_framework_the_environment_is_empty() -> None:
    assert environment("", "worker", 1, worker=2) == {}


def test_members_are_in_declared_order_and_ranks_exclude_services() -> None:
    members = cluster("", ps=1, worker=2, chief=1)
    assert list(members.by_role()) == ["ps", "worker", "chief"]
    assert [(peer.role, peer.index) for peer in members.peers] == [
        ("chief", 0), ("worker", 0), ("worker", 1),
    ]  # fmt: skip
    assert members.rank(members.member("ps", 0)) is None
    assert members.world_size == 3


def test_if_all_are_services_all_are_peers() -> None:
    members = cluster("", ps=2)
    assert [members.rank(member) for member in members.members] == [0, 1]


def test_a_replica_outside_the_cluster_is_named_in_the_error() -> None:
    with pytest.raises(KeyError, match="worker-2"):
        cluster("", worker=2).member("worker", 2)


def test_a_host_without_a_port() -> None:
    alone = Member(role="worker", index=0, address="127.0.0.1")
    assert (alone.host, alone.port) == ("127.0.0.1", "")
