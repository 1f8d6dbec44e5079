"""Converts a pod's or service's permanent rejection to an error about the job's object.

All functions are pure.
"""

from __future__ import annotations

import re

from windlass.kube.api.resource_kinds import Object
from windlass.kube.errors.api_errors import Fault, InvalidObject
from windlass.model.errors import InvalidArgument
from windlass.model.status import ReplicaId
from windlass.operator.jobs.from_object import Translation
from windlass.operator.pods.builder import make_pod

_VARIABLE = re.compile(r"spec\.containers\[(\d+)\]\.env\[(\d+)\]")


def invalid_pod_error(
    refused: InvalidObject, made_from: Translation, replica: ReplicaId
) -> InvalidArgument:
    """Return the error for a job whose pod or service the API rejected.

    The error names each invalid field by its path in the job's object.
    """
    kind = made_from.kind
    path = f"spec.{kind.replica_specs}.{kind.type_of(replica.role)}"
    if refused.kind != "Pod":
        what = refused.kind.lower()
        return InvalidArgument.of([f"{path}: its {what}: {fault}" for fault in refused.faults])
    template = made_from.templates[replica.role]
    pod = make_pod(made_from, replica)
    return InvalidArgument.of(
        [f"{path}.template{_fault_text(fault, pod, template)}" for fault in refused.faults]
    )


def _fault_text(fault: Fault, pod: Object, template: Object) -> str:
    if not fault.field:
        return f": {fault.message}"
    field = _VARIABLE.sub(lambda match: _as_written(match, pod, template), fault.field)
    return f".{field}: {fault.message}"


def _as_written(match: re.Match[str], pod: Object, template: Object) -> str:
    """Convert a variable's path in a pod to its path in the pod's template.

    The two positions differ, because Windlass puts its own variables first in a pod.
    """
    container, position = int(match[1]), int(match[2])
    try:
        variable = pod["spec"]["containers"][container]["env"][position]
        written = template["spec"]["containers"][container]["env"].index(variable)
    except (LookupError, ValueError):
        return match[0]  # Windlass or an admission webhook added the variable
    return f"spec.containers[{container}].env[{written}]"
