"""Checks the options of `wl.Kubernetes` and converts them to job options.

Only jobs that run on Kubernetes import this module.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.authoring.checks.options import Problem, check_text, format_key, nearest
from windlass.model.errors import shown
from windlass.model.kubernetes.job_options import (
    KubernetesOptions,
    LabelKey,
    LabelValue,
    Namespace,
    ObjectName,
    Toleration,
    mount_flaw,
    mount_place,
    mounts_flaw,
    patch_flaw,
    read_source,
)
from windlass.model.thread_safe_types import learned

if TYPE_CHECKING:
    from windlass.authoring.public.executors import Kubernetes

_A_NAME = "is not a valid Kubernetes name; use lowercase letters, digits and dashes"
_OF_TOLERATION = msgspec.structs.fields(Toleration)


def check_pods(executor: Kubernetes) -> list[Problem]:
    """Return the problems with a `wl.Kubernetes` executor.

    CPUs, memory and accelerators are checked elsewhere.
    """
    return [
        *_check_name("namespace", executor.namespace, Namespace),
        *check_text("container_image", executor.container_image),
        *_check_labels(executor.node_selector),
        *_check_tolerations(executor.tolerations),
        *_check_name("service_account", executor.service_account, ObjectName),
        *_check_name("queue", executor.queue, LabelValue),
        *_check_name("priority_class", executor.priority_class, ObjectName),
        *check_pod_volumes(executor.volumes),
        *_check_names("image_pull_secrets", executor.image_pull_secrets),
        *_check_patch(executor.pod_patch),
    ]


def check_pod_volumes(volumes: Any) -> list[Problem]:
    """Return the problems with a pod's volumes."""
    if volumes is None:
        return []
    if not isinstance(volumes, Mapping):
        flaw = 'write a mapping of mount paths to sources: {"/data": "claim:datasets"}'
        return [(("volumes",), f"volumes: {flaw}")]
    problems: list[Problem] = []
    for target, source in volumes.items():
        keys = ("volumes", format_key(target))
        if not isinstance(target, str):
            problems.append((keys, f"volumes: {shown(target)} is not a path"))
        elif flaw := mount_flaw(target):
            problems.append((keys, f"volumes: {flaw}"))
        try:
            read_source(os.fspath(source))
        except ValueError as error:
            problems.append((keys, f"volumes: {error}"))
        except TypeError:
            problems.append((keys, f"volumes: {shown(source)} is not a string; write claim:NAME"))
    if flaw := mounts_flaw(target for target in volumes if isinstance(target, str)):
        problems.append((("volumes",), f"volumes: {flaw}"))
    return problems


def build_options(
    executor: Kubernetes | None, *, namespace: str = "", volumes: Mapping[str, Any] | None = None
) -> KubernetesOptions:
    """Convert a checked executor to Kubernetes options.

    `namespace` is used if the executor sets no namespace. `volumes` are the volumes set on the
    whole job.

    >>> from windlass.authoring.public.executors import Kubernetes
    >>> options = build_options(Kubernetes(queue="team"), volumes={"/data": "claim:datasets"})
    >>> msgspec.to_builtins(options)
    {'queue': 'team', 'volumes': {'/data': 'claim:datasets'}}
    """
    seen = _mounts(volumes)
    if executor is None:
        return KubernetesOptions(namespace=namespace, volumes=seen)
    tolerations = msgspec.convert(
        [dict(toleration) for toleration in executor.tolerations or ()],
        learned(tuple[Toleration, ...]),
    )
    return KubernetesOptions(
        namespace=executor.namespace or namespace,
        container_image=executor.container_image or "",
        node_selector=dict(executor.node_selector or {}),
        tolerations=tolerations,
        service_account=executor.service_account or "",
        queue=executor.queue or "",
        priority_class=executor.priority_class or "",
        volumes={**seen, **_mounts(executor.volumes)},
        image_pull_secrets=tuple(executor.image_pull_secrets or ()),
        pod_patch=msgspec.json.decode(msgspec.json.encode(executor.pod_patch or {})),
    )


def namespaces_of(executors: Iterable[Any]) -> list[str]:
    """Return the distinct namespaces set on executors."""
    named = (getattr(executor, "namespace", None) for executor in executors)
    return list(dict.fromkeys(name for name in named if isinstance(name, str) and name))


def _mounts(volumes: Mapping[str, Any] | None) -> dict[str, str]:
    """Return a mapping from each volume's normalized mount path to its source."""
    return {mount_place(target): os.fspath(source) for target, source in (volumes or {}).items()}


def _check_name(option: str, name: Any, kind: Any) -> list[Problem]:
    if name is None:
        return []
    return [] if name and _is_a(name, kind) else [((option,), f"{option}: {shown(name)} {_A_NAME}")]


def _check_names(option: str, names: Any) -> list[Problem]:
    if names is None:
        return []
    if isinstance(names, str) or not isinstance(names, Sequence):
        example = shown(names) if isinstance(names, str) else "..."
        return [((option,), f"{option}: write a list of names: {option}=[{example}]")]
    return [problem for name in names for problem in _check_name(option, name, ObjectName)]


def _check_labels(labels: Any) -> list[Problem]:
    option = "node_selector"
    if labels is None:
        return []
    if not isinstance(labels, Mapping):
        example = '{"disk": "ssd"}'
        return [((option,), f"{option}: write a mapping of labels to values: {example}")]
    problems: list[Problem] = []
    for name, value in labels.items():
        keys = (option, format_key(name))
        if not _is_a(name, LabelKey):
            problems.append((keys, f"{option}: {shown(name)} is not a valid label name"))
        if not isinstance(value, str):
            wanted = shown(shown(value, str).lower() if isinstance(value, bool) else str(value))
            problems.append((keys, f"{option}: {shown(value)} is not a string; write {wanted}"))
        elif not _is_a(value, LabelValue):
            problems.append((keys, f"{option}: {shown(value)} is not a valid label value"))
    return problems


def _check_tolerations(tolerations: Any) -> list[Problem]:
    option = "tolerations"
    if tolerations is None:
        return []
    example = '[{"key": "gpu", "operator": "Exists"}]'
    if not isinstance(tolerations, Sequence) or isinstance(tolerations, str):
        return [((option,), f"{option}: write a list of mappings: {example}")]
    problems: list[Problem] = []
    fields = [field.encode_name for field in _OF_TOLERATION]
    for toleration in tolerations:
        if not isinstance(toleration, Mapping):
            problems.append(
                ((option,), f"{option}: {shown(toleration)} is not a mapping; write {example}")
            )
            continue
        unknown = [name for name in toleration if name not in fields]
        for name in unknown:
            near = nearest(format_key(name), fields)
            guess = f"did you mean {near!r}?" if near else f"choose one of: {', '.join(fields)}"
            problems.append(((option,), f"{option}: there is no field {shown(name)}; {guess}"))
        if not unknown and not _is_a(dict(toleration), Toleration):
            problems.append(
                ((option,), f"{option}: {shown(toleration)} is not a toleration; write {example}")
            )
    return problems


def _check_patch(patch: Any) -> list[Problem]:
    if patch is None:
        return []
    flaw = patch_flaw(dict(patch) if isinstance(patch, Mapping) else patch)
    return [(("pod_patch",), f"pod_patch: {flaw}")] if flaw else []


def _is_a(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, learned(kind))
    except msgspec.ValidationError:
        return False
    return True
