"""The job object kinds TFJob and PyTorchJob: their API names and defaults."""

from __future__ import annotations

import msgspec

from windlass.kube.api.resource_kinds import Kind
from windlass.model.job import RestartPolicy

GROUP, VERSION = "kubeflow.org", "v1"
# The values of `managedBy` that mean this operator. The definitions list them too. The operator
# ignores objects that have any other value.
OUR_NAMES = frozenset({"", "kubeflow.org/training-operator", "windlass.dev/operator"})
OTHER_OPERATORS = frozenset({"kueue.x-k8s.io/multikueue"})


class JobKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of job object, including its API names and defaults."""

    kind: Kind
    framework: str
    container: str  # the name of the main container, whose end is the replica's end
    port_name: str
    port: int
    replica_specs: str  # the spec field that contains the roles
    types: tuple[str, ...]  # the replica types, leaders first
    operator_name: str  # the value of a label on all pods
    restart_policy: RestartPolicy  # the default policy of a role

    @property
    def name(self) -> str:
        """The value of `kind` in objects, such as "TFJob"."""
        return self.kind.name

    def type_of(self, role: str) -> str:
        """Return the replica type of a role as the API spells it.

        >>> TFJOB.type_of("ps")
        'PS'
        """
        return next(type_ for type_ in self.types if type_.lower() == role)


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
BY_NAME = {kind.name: kind for kind in JOB_KINDS}
