"""Builds a job's manifests (a Secret, services and pods) as plain JSON, without any I/O."""

from __future__ import annotations

import base64
import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from windlass.kube.capacity.nodes import Placement
from windlass.model.errors import InvalidArgument
from windlass.model.hardware.resources import Resources
from windlass.model.job import FunctionCall, Job, JobSpec, Role
from windlass.model.kubernetes.job_options import (
    KubernetesOptions,
    PodSource,
    patch_flaw,
    read_source,
)
from windlass.model.status import ReplicaId
from windlass.model.text.quantities import parse_size
from windlass.runtimes.kubernetes.objects import names as pod_names
from windlass.runtimes.kubernetes.objects.merge_patch import merged

Object = dict[str, Any]

CONTAINER = "main"  # the container that runs the program
AGENT_PORT = 8477  # the port on which the agent accepts tunnels from the server
GRACE = 60  # seconds that an evicted pod has to end
_THEIR_GRACE = 30  # seconds, the Kubernetes default
WORKER, SETTINGS = "worker.zip", "agent.json"  # files in the Secret
MOUNT, POD_HOME, POD_CACHE = "/windlass", "/windlass-home", "/windlass-cache"
_AGENT_GRACE = "WINDLASS_AGENT_GRACE"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_USER = 1000  # the user id in our default images, which do not need root
_PYTHON_IMAGE = re.compile(r"(?:^|/)python:(\d+\.\d+)(?:[.-]|\Z)", re.ASCII)


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Identifies the objects that a job may have in a cluster: cluster, namespace and names."""

    uid: str
    trial_id: int
    namespace: str
    base: str  # the prefix of the names of all objects
    home: str  # the id of the server home that owns the job
    server: str = ""  # identifies the cluster (`Connection.address`); empty until the job starts
    is_begun: bool = False  # whether any object may have been created
    is_given_up: bool = False  # whether the job may end although its cluster does not respond
    placements: dict[str, Placement] = {}  # the last placement of each accelerator role

    @property
    def labels(self) -> dict[str, str]:
        return pod_names.job_labels(self.uid, self.trial_id, self.home)


def job_record(job: Job, namespace: str, home: str, server: str = "") -> JobRecord:
    """Return the record of a new job that has no objects in a cluster yet."""
    return JobRecord(
        uid=job.uid,
        trial_id=job.trial_id,
        namespace=namespace,
        base=pod_names.base_of(job.trial_id, job.uid),
        home=home,
        server=server,
    )


def build_secret(record: JobRecord, worker: bytes, settings: Mapping[str, Any]) -> Object:
    """Build the Secret of a job.

    The Secret contains the agents' settings and owns all of the job's other objects.
    """
    data = {WORKER: worker, SETTINGS: json.dumps(settings).encode()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": record.base,
            "namespace": record.namespace,
            "labels": record.labels,
        },
        "type": "Opaque",
        "data": {name: base64.b64encode(content).decode() for name, content in data.items()},
    }


def build_service(record: JobRecord, role: str, index: int, owner: str) -> Object:
    """Build a replica's headless service, which gives all its attempts the same address."""
    labels = {**record.labels, **pod_names.replica_labels(role, index)}
    chosen = (pod_names.UID, pod_names.ROLE, pod_names.INDEX)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": pod_names.service_name(record.base, role, index),
            "namespace": record.namespace,
            "labels": labels,
            "ownerReferences": [_owner(record, owner)],
        },
        "spec": {
            "clusterIP": "None",
            "selector": {name: labels[name] for name in chosen},
            "ports": [{"name": "main", "port": pod_names.PORT, "targetPort": pod_names.PORT}],
            # Replicas connect to each other before they are ready.
            "publishNotReadyAddresses": True,
        },
    }


def build_pod(
    record: JobRecord,
    job: Job,
    replica: ReplicaId,
    owner: str,
    *,
    placement: Placement | None = None,
    image: str = "",
) -> Object:
    """Build an attempt's pod. `image` is used if the job sets no image."""
    role = job.spec.role(replica.role)
    options = role.kubernetes or KubernetesOptions()
    placement = placement or Placement()
    labels = {
        **record.labels,
        **pod_names.replica_labels(replica.role, replica.index),
        pod_names.ATTEMPT: str(replica.attempt),
        **(
            {pod_names.SLICE: pod_names.slice_name(record.base, role.name)}
            if placement.together
            else {}
        ),
    }
    metadata: Object = {
        "name": pod_names.pod_name(record.base, replica),
        "namespace": record.namespace,
        "labels": labels,
    }
    _queue(metadata, record, job.spec, options.queue)
    spec = _pod_spec(record, job.spec, role, options, placement, image)
    if placement.together:
        spec["containers"][0]["env"] += _of_slice(record, role, replica.index)
    spec["containers"][0]["env"] += [
        {"name": "WINDLASS_AGENT_ROLE", "value": replica.role},
        {"name": "WINDLASS_AGENT_INDEX", "value": str(replica.index)},
        {"name": "WINDLASS_AGENT_ATTEMPT", "value": str(replica.attempt)},
    ]
    pod: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return _ours(_patched(pod, options.pod_patch), pod, _owner(record, owner))


def has_services(spec: JobSpec) -> bool:
    """Return whether a job's replicas need addresses.

    A job's only replica needs no address, unless the job has a framework.
    """
    return bool(spec.framework) or sum(role.replicas for role in spec.roles) > 1


def default_image(spec: JobSpec) -> str:
    """Return the image for a job that sets none. The image has the job's Python version.

    >>> from windlass.model.job import ProcessCall, Python
    >>> role = Role(executable=ProcessCall(argv=("true",)))
    >>> default_image(JobSpec(roles=(role,), python=Python(version="3.12")))
    'python:3.12-slim'
    """
    return f"python:{spec.python.version or '3'}-slim"


def image_problems(spec: JobSpec, image: str = "") -> list[str]:
    """Return the problems with a job's images.

    Pickled code needs an image with the Python version that pickled the code.
    """
    problems = []
    for role in spec.roles:
        named = (role.kubernetes.container_image if role.kubernetes else "") or image
        python = _PYTHON_IMAGE.search(named)
        if not python or not spec.python.version or python[1] == spec.python.version:
            continue
        if isinstance(role.executable, FunctionCall):
            problems.append(
                f"the image {named} has Python {python[1]}, but the function was pickled "
                f"by Python {spec.python.version}; choose an image with that version."
            )
    return problems


def _pod_spec(
    record: JobRecord,
    spec: JobSpec,
    role: Role,
    options: KubernetesOptions,
    placement: Placement,
    image: str,
) -> Object:
    is_ours = not options.container_image
    volumes, mounts = _volumes(record, options)
    container: Object = {
        "name": CONTAINER,
        "image": options.container_image or image or default_image(spec),
        "command": ["python3", posixpath.join(MOUNT, WORKER), "agent"],
        "env": _environment(options, is_ours=is_ours),
        "resources": _resources(role.resources, placement.resources),
        "volumeMounts": mounts,
        "securityContext": {"allowPrivilegeEscalation": False},
        # If the agent does not start, the container's output is the only explanation.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    security: Object = {"seccompProfile": {"type": "RuntimeDefault"}}
    if is_ours:
        # These settings satisfy the restricted pod security standard. They are not set for users'
        # images, which may need root.
        container["securityContext"]["capabilities"] = {"drop": ["ALL"]}
        security |= {"runAsNonRoot": True, "runAsUser": _USER, "runAsGroup": _USER}
        security |= {"fsGroup": _USER, "fsGroupChangePolicy": "OnRootMismatch"}
    tolerations = [*placement.tolerations, *map(msgspec.to_builtins, options.tolerations)]
    selector = {**placement.node_selector, **options.node_selector}
    secrets = [{"name": name} for name in options.image_pull_secrets]
    affinity = _affinity(placement, pod_names.slice_name(record.base, role.name))
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE,
        "automountServiceAccountToken": bool(options.service_account),
        # By default, Kubernetes adds variables for every service in the namespace.
        "enableServiceLinks": False,
        "securityContext": security,
        "containers": [container],
        "volumes": volumes,
        **({"serviceAccountName": options.service_account} if options.service_account else {}),
        **({"priorityClassName": options.priority_class} if options.priority_class else {}),
        **({"nodeSelector": selector} if selector else {}),
        **({"affinity": affinity} if affinity else {}),
        **({"tolerations": tolerations} if tolerations else {}),
        **({"imagePullSecrets": secrets} if secrets else {}),
    }


def _affinity(placement: Placement, slice_name: str) -> Object:
    made: Object = {}
    if placement.node_terms:
        terms = {"nodeSelectorTerms": list(placement.node_terms)}
        made["nodeAffinity"] = {_REQUIRED: terms}
    if placement.together:
        is_slice = {"key": pod_names.SLICE, "operator": "Exists"}
        is_another = {"key": pod_names.SLICE, "operator": "NotIn", "values": [slice_name]}
        # The first pod matches its own selector, so any node suits it. The other pods follow the
        # first pod.
        own = {
            "labelSelector": {"matchLabels": {pod_names.SLICE: slice_name}},
            "topologyKey": placement.together,
        }
        # Keep the pods of other jobs away. Otherwise, two jobs that hold half a TPU each would wait
        # forever.
        others = {
            "labelSelector": {"matchExpressions": [is_slice, is_another]},
            # The empty selector means all namespaces. Clusters before 1.21 apply the rule only to
            # the pod's own namespace.
            "namespaceSelector": {},
            "topologyKey": placement.together,
        }
        made["podAffinity"], made["podAntiAffinity"] = {_REQUIRED: [own]}, {_REQUIRED: [others]}
    return made


def _of_slice(record: JobRecord, role: Role, index: int) -> list[Object]:
    """Return the variables with which the machines of one TPU slice find each other.

    GKE sets these variables only for its own kinds of jobs. It sets all other TPU variables, such
    as topology and chips, for every pod.
    """
    hosts = [
        pod_names.host_of(record.base, record.namespace, role.name, host_index)
        for host_index in range(role.replicas)
    ]
    return [
        {"name": "TPU_WORKER_ID", "value": str(index)},
        {"name": "TPU_WORKER_HOSTNAMES", "value": ",".join(hosts)},
    ]


def _environment(options: KubernetesOptions, *, is_ours: bool) -> list[Object]:
    variables = {"WINDLASS_AGENT_HOME": POD_HOME, _AGENT_GRACE: str(GRACE)}
    if is_ours:
        # The user id has no entry in the image's /etc/passwd, but many programs need a name and a
        # home.
        variables |= {"HOME": f"{POD_HOME}/user", "USER": "windlass", "LOGNAME": "windlass"}
    if POD_CACHE in map(posixpath.normpath, options.volumes):
        variables |= {"WINDLASS_AGENT_CACHE": POD_CACHE, "UV_CACHE_DIR": f"{POD_CACHE}/uv"}
    return [{"name": name, "value": value} for name, value in variables.items()]


def _resources(resources: Resources, accelerators: Mapping[str, str]) -> Object:
    """Build a container's resource requests and limits. CPUs have a request but no limit."""
    requests = {"cpu": f"{max(round(resources.cpus * 1000), 1)}m", **accelerators}
    limits = dict(accelerators)
    if resources.memory:
        requests["memory"] = limits["memory"] = str(resources.memory)
    return {"requests": requests, **({"limits": limits} if limits else {})}


def _volumes(record: JobRecord, options: KubernetesOptions) -> tuple[list[Object], list[Object]]:
    """Return a pod's volumes and their mounts in the container."""
    volumes: list[Object] = [
        {"name": "windlass", "secret": {"secretName": record.base, "defaultMode": 0o444}},
        {"name": "windlass-home", "emptyDir": {}},
    ]
    mounts: list[Object] = [
        {"name": "windlass", "mountPath": MOUNT, "readOnly": True},
        {"name": "windlass-home", "mountPath": POD_HOME},
    ]
    named: dict[str, str] = {}  # several mounts of one claim share one volume
    for target, text in options.volumes.items():
        source = read_source(text)
        what = json.dumps(_volume(source), sort_keys=True)
        if what not in named or source.kind in ("scratch", "memory"):
            named[what] = f"volume-{len(volumes) - 2}"
            volumes.append({"name": named[what], **_volume(source)})
        mounts.append(
            {
                "name": named[what],
                "mountPath": posixpath.normpath(target),
                **({"subPath": source.inside} if source.inside else {}),
                **({"readOnly": True} if source.is_read_only else {}),
            }
        )
    return volumes, mounts


def _volume(source: PodSource) -> Object:
    if source.kind == "claim":
        return {"persistentVolumeClaim": {"claimName": source.name}}
    if source.kind == "config":
        return {"configMap": {"name": source.name}}
    if source.kind == "secret":
        return {"secret": {"secretName": source.name}}
    if source.kind == "host":
        return {"hostPath": {"path": source.name}}
    most = {"sizeLimit": str(parse_size(source.name))} if source.name else {}
    return {"emptyDir": {**({"medium": "Memory"} if source.kind == "memory" else {}), **most}}


def _queue(metadata: Object, record: JobRecord, spec: JobSpec, queue: str) -> None:
    """Add labels that put a pod into a Kueue queue. Kueue admits all replicas of a job together."""
    if not queue:
        return
    metadata["labels"][pod_names.QUEUE] = queue
    total = sum(role.replicas for role in spec.roles)
    if total > 1:
        metadata["labels"][pod_names.GROUP] = record.base
        metadata["annotations"] = {pod_names.GROUP_SIZE: str(total)}


def _patched(pod: Object, patch: Mapping[str, Any]) -> Object:
    """Merge a user's patch into the pod.

    The patch may apply to the whole pod or only to its `spec`.
    """
    if not patch:
        return pod
    # only possible in a preview, because submitted jobs were checked earlier
    if flaw := patch_flaw(patch):
        raise InvalidArgument(f"pod_patch: {flaw}.")
    is_whole = set(patch) <= {"metadata", "spec"}
    laid: Object = merged(pod, patch if is_whole else {"spec": patch})
    return laid


def _ours(pod: Object, made: Object, owner: Object) -> Object:
    """Restore the fields that identify a patched pod and its owner.

    A patch must not change them.
    """
    made_metadata = made["metadata"]
    metadata: Object = {
        **(pod.get("metadata") or {}),
        "name": made_metadata["name"],
        "namespace": made_metadata["namespace"],
        "ownerReferences": [owner],
    }
    metadata["labels"] = {**(metadata.get("labels") or {}), **made_metadata["labels"]}
    spec: Object = {**(pod.get("spec") or {}), "restartPolicy": "Never"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _agreed(spec)}


def _agreed(spec: Object) -> Object:
    """Complete a patched pod `spec` with values on which the agent and the cluster must agree.

    The agent gets the pod's termination grace period. On the host network, the container declares
    the agent's port, so that the scheduler puts no second pod that uses this port on the same node.
    """
    grace = spec.get("terminationGracePeriodSeconds", _THEIR_GRACE)
    required: Object = {"env": [{"name": _AGENT_GRACE, "value": str(grace)}]}
    if spec.get("hostNetwork"):
        required["ports"] = [{"containerPort": AGENT_PORT, "protocol": "TCP"}]
    containers = spec.get("containers")
    if not isinstance(containers, list):
        return spec  # the cluster will reject the invalid value with a message
    return {**spec, "containers": [_laid(container, required) for container in containers]}


def _laid(container: Any, required: Object) -> Any:
    is_main = isinstance(container, Mapping) and container.get("name") == CONTAINER
    return merged(container, required) if is_main else container


def _owner(record: JobRecord, uid: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "name": record.base,
        "uid": uid,
        "controller": True,
        # `True` would require permission to update the finalizers of Secrets
        "blockOwnerDeletion": False,
    }


def elided(objects: Sequence[Object]) -> list[Object]:
    """Return the objects for display, without the contents of the Secret."""
    shown = []
    for manifest in objects:
        if manifest.get("kind") == "Secret":
            hidden = dict.fromkeys(manifest["data"], "...")
            manifest = {**manifest, "data": hidden}
        shown.append(manifest)
    return shown
