"""Supports TensorFlow by describing cluster and replica in the variable `TF_CONFIG`."""

from __future__ import annotations

import json

from windlass.frameworks.cluster import Cluster, Member
from windlass.frameworks.framework import Framework

_ROLES = ("chief", "master", "worker", "ps", "evaluator")
_EVALUATOR = "evaluator"


def environment(cluster: Cluster, me: Member) -> dict[str, str]:
    """Return `TF_CONFIG` for a replica, or nothing for a job's only replica.

    If `TF_CONFIG` were set, a single process would wait for other replicas.

    >>> pair = [Member(role="worker", index=i, address=f"host:{i}") for i in range(2)]
    >>> print(environment(Cluster(members=tuple(pair)), pair[1])["TF_CONFIG"])
    {"cluster":{"worker":["host:0","host:1"]},"task":{"type":"worker","index":1}}
    >>> environment(Cluster(members=(pair[0],)), pair[0])
    {}
    """
    if len(cluster.members) == 1:
        return {}
    # An evaluator is not part of the cluster, so that no member waits for it.
    hosts = {role: at for role, at in cluster.by_role().items() if role != _EVALUATOR}
    config = {"cluster": hosts, "task": {"type": me.role, "index": me.index}}
    return {"TF_CONFIG": json.dumps(config, separators=(",", ":"))}


TENSORFLOW = Framework(
    name="tensorflow",
    environment=environment,
    roles=_ROLES,
    alone=("chief", "master", _EVALUATOR),
    rivals=(("chief", "master"),),
    services=("ps", _EVALUATOR),
)
