"""JAX: where the coordinator is, and which of the processes one is."""

from __future__ import annotations

from windlass.frameworks.cluster import Cluster, Member
from windlass.frameworks.framework import Framework
from windlass.model.job import RestartScope


def environment(cluster: Cluster, me: Member) -> dict[str, str]:
    """The coordinator, which is process 0, and one's own number; in three spellings.

    The plain names are those of training operators, those that begin with `JAX_` those of many
    programs. `jax.distributed.initialize()` by itself reads the coordinator only; how many there
    are and which it is, it asks of launchers that it knows, and before all others of Open MPI's.

    >>> pair = [Member(role="worker", index=i, address="10.0.0.1:1234") for i in range(2)]
    >>> found = environment(Cluster(members=tuple(pair)), pair[1])
    >>> found["COORDINATOR_ADDRESS"], found["NUM_PROCESSES"], found["PROCESS_ID"]
    ('10.0.0.1', '2', '1')
    >>> found["JAX_COORDINATOR_ADDRESS"], found["OMPI_COMM_WORLD_RANK"]
    ('10.0.0.1:1234', '1')
    """
    rank = cluster.rank(me)
    if rank is None:
        return {}
    first = cluster.peers[0]
    size = str(cluster.world_size)
    found = {
        "COORDINATOR_ADDRESS": first.host,
        "COORDINATOR_PORT": first.port,
        "NUM_PROCESSES": size,
        "PROCESS_ID": str(rank),
        "JAX_COORDINATOR_ADDRESS": first.address,
        "JAX_NUM_PROCESSES": size,
        "JAX_PROCESS_ID": str(rank),
        "OMPI_MCA_orte_hnp_uri": f"0.0;tcp://{first.address}",  # that it is there is what counts
        "OMPI_COMM_WORLD_SIZE": size,
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    }
    if me.accelerators:
        # Else it would take one device, as Open MPI's processes share those of their machine.
        found["JAX_LOCAL_DEVICE_IDS"] = ",".join(map(str, range(me.accelerators)))
    return found


JAX = Framework(name="jax", environment=environment, restart_scope=RestartScope.JOB)
