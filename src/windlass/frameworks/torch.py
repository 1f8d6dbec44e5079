"""Supports PyTorch by setting the variables that `torch.distributed` and `torchrun` read."""

from __future__ import annotations

from windlass.frameworks.cluster import Cluster, Member
from windlass.frameworks.framework import Framework
from windlass.model.job import RestartScope


def environment(cluster: Cluster, me: Member) -> dict[str, str]:
    """Return a replica's rank, and the address of rank 0, to which all replicas connect.

    Each replica counts as a node with one process. If the program starts more processes with
    `torchrun`, the default is one process per accelerator of the replica.

    >>> pair = [Member(role="worker", index=i, address="10.0.0.1:29500") for i in range(2)]
    >>> found = environment(Cluster(members=tuple(pair)), pair[1])
    >>> found["RANK"], found["WORLD_SIZE"], found["MASTER_ADDR"], found["MASTER_PORT"]
    ('1', '2', '10.0.0.1', '29500')
    """
    rank = cluster.rank(me)
    if rank is None:
        return {}
    first = cluster.peers[0]
    return {
        "MASTER_ADDR": first.host,
        "MASTER_PORT": first.port,
        "WORLD_SIZE": str(cluster.world_size),
        "RANK": str(rank),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": str(rank),
        "PET_NNODES": str(cluster.world_size),
        "PET_NODE_RANK": str(rank),
        "PET_NPROC_PER_NODE": str(max(me.accelerators, 1)),
        "PET_MASTER_ADDR": first.host,
        "PET_MASTER_PORT": first.port,
    }


TORCH = Framework(
    name="torch",
    environment=environment,
    roles=("master", "worker"),
    takes_services=True,
    alone=("master",),
    # A collective operation cannot continue after losing a replica.
    restart_scope=RestartScope.JOB,
)
