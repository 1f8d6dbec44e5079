"""Submits a pod as a dry run to find options that the cluster would reject or ignore."""

from __future__ import annotations

import msgspec

from windlass.kube.api.connection import Connection
from windlass.kube.api.resource_kinds import PODS, Object
from windlass.kube.capacity.nodes import Placement
from windlass.kube.diagnosis.unknown_fields import dropped_fields, meant
from windlass.kube.errors.refusals import ACCOUNT_MISSING, PRIORITY_MISSING
from windlass.model.errors import InvalidArgument, KubernetesError
from windlass.model.job import Job, JobSpec, Role
from windlass.model.kubernetes.job_options import KubernetesOptions
from windlass.model.status import ReplicaId
from windlass.runtimes.kubernetes.objects.manifests import build_pod, job_record

_NOBODY = "0" * 32
_QUICK = 20.0  # seconds that a response may take
# These errors do not go away with time. A user has to create the missing object or name a different
# one.
_MISSING = (ACCOUNT_MISSING, PRIORITY_MISSING)


def needs_try(options: KubernetesOptions) -> bool:
    """Return whether the pod options include any that only a dry run can validate."""
    return bool(options.service_account or options.priority_class or options.pod_patch)


def check_pod(
    connection: Connection,
    spec: JobSpec,
    role: Role,
    *,
    namespace: str,
    placement: Placement,
    image: str,
) -> None:
    """Submit a pod as a dry run.

    Raise an error if an object is missing or `pod_patch=` has unknown fields.

    The missing object may be a service account or a priority class. The cluster would silently drop
    unknown fields. The cluster's other objections, such as a quota or an admission rule, may go
    away, so they are reported only when the real pod is created. If the cluster does not allow dry
    runs, the check passes.
    """
    pod = _pod(spec, role, namespace, placement, image)
    query = {"dryRun": "All"}
    try:
        made = connection.request("POST", PODS.path(namespace), pod, query=query, timeout=_QUICK)
    except KubernetesError as refused:
        if refused.reason in _MISSING:
            raise
        return
    patch = (role.kubernetes or KubernetesOptions()).pod_patch
    laid = patch if set(patch) <= {"metadata", "spec"} else {"spec": patch}
    unknown = list(dropped_fields(laid, made))
    if not unknown:
        return
    problems = [f"pod_patch: a pod has no field {path}.{meant(path)}" for path in unknown]
    error = InvalidArgument.of(problems)
    error.hint = error.hint or "See the fields: kubectl explain pod.spec"
    raise error


def _pod(spec: JobSpec, role: Role, namespace: str, placement: Placement, image: str) -> Object:
    """Build a first attempt's pod for the dry run.

    The pod has no trial number, because the trial does not exist yet.
    """
    job = Job(uid=_NOBODY, trial_id=0, spec=spec)
    record = job_record(job, namespace, "0")
    first = ReplicaId(role.name, 0, 1)
    pod = build_pod(record, job, first, _NOBODY, placement=placement, image=image)
    metadata = {**pod["metadata"], "generateName": "windlass-check-"}
    for field in ("name", "ownerReferences"):
        metadata.pop(field)
    copied: Object = msgspec.to_builtins({**pod, "metadata": metadata})
    return copied
