"""The kinds of jobs of the operator, with their names in the API and their defaults."""

from __future__ import annotations

import msgspec

from windlass.kube.api.resource_kinds import Kind
from windlass.model.job import RestartPolicy

GROUP, VERSION = "kubeflow.org", "v1"
# The values of `managedBy`, which the definitions list too. Objects of other operators are ignored.
OUR_NAMES = frozenset({"", "kubeflow.org/training-operator", "windlass.dev/operator"})
OTHER_OPERATORS = frozenset({"kueue.x-k8s.io/multikueue"})


class JobKind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of jobs: its names in the API and its defaults."""

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
        """The kind as objects have it: "TFJob"."""
        return self.kind.name

    def type_of(self, role: str) -> str:
        """Return the API's spelling of a role.

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
