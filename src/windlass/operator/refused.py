"""Refused: what the API has against a pod or a service for good, told of the job it is of.

Pure functions.
"""

from __future__ import annotations

import re

from windlass.kube.faults import Fault, InvalidObject
from windlass.kube.kinds import Object
from windlass.model.errors import InvalidArgument
from windlass.model.status import ReplicaId
from windlass.operator.making import make_pod
from windlass.operator.translating import Translation

_VARIABLE = re.compile(r"spec\.containers\[(\d+)\]\.env\[(\d+)\]")


def problem_of(
    refused: InvalidObject, made_from: Translation, replica: ReplicaId
) -> InvalidArgument:
    """What is wrong with a job of which a replica cannot be made, each with its place."""
    kind = made_from.kind
    path = f"spec.{kind.replica_specs}.{kind.type_of(replica.role)}"
    if refused.kind != "Pod":
        what = refused.kind.lower()
        return InvalidArgument.of([f"{path}: its {what}: {each}" for each in refused.faults])
    template = made_from.templates[replica.role]
    pod = make_pod(made_from, replica)
    return InvalidArgument.of(
        [f"{path}.template{_told(each, pod, template)}" for each in refused.faults]
    )


def _told(fault: Fault, pod: Object, template: Object) -> str:
    if not fault.field:
        return f": {fault.message}"
    field = _VARIABLE.sub(lambda found: _as_written(found, pod, template), fault.field)
    return f".{field}: {fault.message}"


def _as_written(found: re.Match[str], pod: Object, template: Object) -> str:
    """Where a variable of a pod is in its template: those of ours come before the user's."""
    container, place = int(found[1]), int(found[2])
    try:
        variable = pod["spec"]["containers"][container]["env"][place]
        written = template["spec"]["containers"][container]["env"].index(variable)
    except (LookupError, ValueError):
        return found[0]  # one of ours, or of whoever adds to pods on their way in
    return f"spec.containers[{container}].env[{written}]"
