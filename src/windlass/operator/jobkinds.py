"""The kinds of jobs that the operator looks after, and what is particular to each."""

from __future__ import annotations

import msgspec

from windlass.kube.kinds import Kind
from windlass.model.job import RestartPolicy

GROUP, VERSION = "kubeflow.org", "v1"
# Objects that name somebody else as who manages them are left alone.
OUR_NAMES = frozenset({"", "kubeflow.org/training-operator", "windlass.dev/operator"})


class JobKind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of jobs: the API's names for things, and its defaults."""

    kind: Kind
    framework: str
    container: str  # which decides how a replica ended
    port_name: str
    port: int
    replica_specs: str  # the field of the spec that has the roles
    types: tuple[str, ...]  # of replicas, leaders first
    operator_name: str  # in the labels of pods
    restart_policy: RestartPolicy  # of a role that names none

    @property
    def name(self) -> str:
        """As objects say it: "TFJob"."""
        return self.kind.name

    def type_of(self, role: str) -> str:
        """How the API spells a role.

        >>> TFJOB.type_of("ps")
        'PS'
        """
        return next(each for each in self.types if each.lower() == role)


TFJOB = JobKind(
    kind=Kind(GROUP, VERSION, "tfjobs", "TFJob"),
    framework="tensorflow",
    container="tensorflow",
    port_name="tfjob-port",
    port=2222,
    replica_specs="tfReplicaSpecs",
    types=("Chief", "Master", "Worker", "PS", "Evaluator"),
    operator_name="tfjob-controller",
    restart_policy=RestartPolicy.NEVER,
)
PYTORCHJOB = JobKind(
    kind=Kind(GROUP, VERSION, "pytorchjobs", "PyTorchJob"),
    framework="torch",
    container="pytorch",
    port_name="pytorchjob-port",
    port=23456,
    replica_specs="pytorchReplicaSpecs",
    types=("Master", "Worker"),
    operator_name="pytorchjob-controller",
    restart_policy=RestartPolicy.ON_FAILURE,
)
JOB_KINDS = (TFJOB, PYTORCHJOB)
BY_NAME = {each.name: each for each in JOB_KINDS}
