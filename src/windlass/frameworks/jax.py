"""Supports JAX by setting the coordinator's address and the process number."""

from __future__ import annotations

from windlass.frameworks.cluster import Cluster, Member
from windlass.frameworks.framework import Framework
from windlass.model.job import RestartScope


def environment(cluster: Cluster, me: Member) -> dict[str, str]:
    """Return the coordinator's address, the process number and the process count.

    The coordinator is process 0. JAX itself reads only the coordinator's address. The program must
    pass the other values: `jax.distributed.initialize(num_processes=wl.world_size(),
    process_id=wl.rank())`.

    >>> pair = [Member(role="worker", index=i, address="10.0.0.1:1234") for i in range(2)]
    >>> found = environment(Cluster(members=tuple(pair)), pair[1])
    >>> found["COORDINATOR_ADDRESS"], found["NUM_PROCESSES"], found["PROCESS_ID"]
    ('10.0.0.1', '2', '1')
    >>> found["JAX_COORDINATOR_ADDRESS"]
    '10.0.0.1:1234'
    """
    rank = cluster.rank(me)
    if rank is None:
        return {}
    first = cluster.peers[0]
    return {
        "COORDINATOR_ADDRESS": first.host,
        "COORDINATOR_PORT": first.port,
        "NUM_PROCESSES": str(cluster.world_size),
        "PROCESS_ID": str(rank),
        "JAX_COORDINATOR_ADDRESS": first.address,
    }


JAX = Framework(
    name="jax",
    environment=environment,
    roles=("worker",),
    takes_services=True,
    restart_scope=RestartScope.JOB,
)
