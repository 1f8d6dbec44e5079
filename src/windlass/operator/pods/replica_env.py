"""Builds a replica's environment variables, which come from its framework and from Windlass."""

from __future__ import annotations

import json

from windlass.frameworks.cluster import Cluster, Member, build_cluster
from windlass.frameworks.registry import find_framework
from windlass.model.status import ReplicaId
from windlass.operator.jobs.from_object import Elastic, Translation
from windlass.operator.names import replica_name

DEFAULTS = {"PYTHONUNBUFFERED": "1"}
"""The default environment of a replica, in which output appears in the log at once."""

_STATIC = ("PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NODE_RANK")


def build_environment(made_from: Translation, replica: ReplicaId) -> dict[str, str]:
    """Return the environment variables of an attempt.

    A replica's attempts differ only in the variable that contains the attempt number.
    """
    addresses = made_from.addresses
    cluster = build_cluster(made_from.job.spec, addresses)
    me = cluster.member(replica.role, replica.index)
    variables = find_framework(made_from.kind.framework).variables(cluster, me)
    if made_from.kind.framework == "torch":
        variables |= _torch(made_from, cluster)
        if made_from.elastic is not None:
            for name in _STATIC:
                variables.pop(name, None)
            variables |= _elastic(made_from, made_from.elastic)
    elif made_from.has_dynamic_workers and variables:
        variables["TF_CONFIG"] = _sparse(cluster, me)
    return {
        **variables,
        "WINDLASS_ROLE": replica.role,
        "WINDLASS_INDEX": str(replica.index),
        "WINDLASS_ATTEMPT": str(replica.attempt),
        "WINDLASS_HOSTS": json.dumps(cluster.by_role(), separators=(",", ":")),
    }


def _torch(made_from: Translation, cluster: Cluster) -> dict[str, str]:
    """Return the variables whose meaning differs between the PyTorchJob API and Windlass.

    In the PyTorchJob API, the world size is the number of nodes times the number of processes per
    node.
    """
    written = made_from.processes
    processes = int(written) if written.isascii() and written.isdigit() else 1
    return {
        "WORLD_SIZE": str(cluster.world_size * processes),
        "PET_NPROC_PER_NODE": written,
    }


def _elastic(made_from: Translation, elastic: Elastic) -> dict[str, str]:
    """Return the variables that configure torchrun for an elastic job."""
    job = made_from.job
    host = elastic.host or replica_name(job.name, "worker", 0)
    port = elastic.port or made_from.ports["worker"]
    least, most = elastic.least, elastic.most
    variables = {
        "PET_NNODES": f"{least}:{most}",
        "PET_RDZV_BACKEND": elastic.backend,
        "PET_RDZV_ENDPOINT": f"{host}:{port}",
        "PET_RDZV_ID": elastic.id or job.name,
    }
    if elastic.conf:
        variables["PET_RDZV_CONF"] = elastic.conf
    if elastic.max_restarts is not None:
        variables["PET_MAX_RESTARTS"] = str(elastic.max_restarts)
    if elastic.standalone:
        variables["PET_STANDALONE"] = ""
    return variables


def _sparse(cluster: Cluster, me: Member) -> str:
    """Return a `TF_CONFIG` in which a worker knows only itself and the parameter servers.

    Such a `TF_CONFIG` is used for jobs whose workers may come and go.
    """
    hosts = cluster.by_role()
    own = {str(me.index): me.address} if me.role == "worker" else {}
    config = {
        "sparseCluster": {"worker": own, "ps": hosts.get("ps", [])},
        "task": {"type": me.role, "index": me.index},
    }
    return json.dumps(config, separators=(",", ":"))
