"""What a job says of the Kubernetes cluster it runs on, beyond what it needs anywhere."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from typing import Annotated, Any

import msgspec

from windlass.model.errors import shown
from windlass.model.kubernetes.pod_shapes import shape_flaw
from windlass.model.text.quantities import parse_size

# They end in \Z: a $ would let a line break pass.
_DNS = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_PART = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
Namespace = Annotated[str, msgspec.Meta(pattern=rf"^({_DNS})?\Z")]
ObjectName = Annotated[str, msgspec.Meta(pattern=rf"^{_DNS}(\.{_DNS})*\Z", max_length=253)]
OptionalName = Annotated[str, msgspec.Meta(pattern=rf"^({_DNS}(\.{_DNS})*)?\Z", max_length=253)]
LabelKey = Annotated[str, msgspec.Meta(pattern=rf"^({_DNS}(\.{_DNS})*/)?{_PART}\Z", max_length=317)]
LabelValue = Annotated[str, msgspec.Meta(pattern=rf"^({_PART})?\Z")]
ImageName = Annotated[str, msgspec.Meta(max_length=1024, pattern=r"^[^\s\x00]*\Z")]
MountPath = Annotated[str, msgspec.Meta(max_length=1024, pattern=r"^/[^:\x00]+\Z")]
Source = Annotated[str, msgspec.Meta(max_length=1024, pattern=r"^[^\x00]+\Z")]
Seconds = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]

OURS = ("/windlass", "/windlass-home")  # where the pod has what it needs of us
_MOST = msgspec.Meta(max_length=100)
_LARGEST_PATCH = 100_000
_DEEPEST_PATCH = 30


class Toleration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A taint of nodes that a pod puts up with, as the API writes it."""

    key: Annotated[str, msgspec.Meta(max_length=317)] = ""
    operator: Annotated[str, msgspec.Meta(pattern=r"^(Exists|Equal|)\Z")] = ""
    value: LabelValue = ""
    effect: Annotated[str, msgspec.Meta(pattern=r"^(NoSchedule|PreferNoSchedule|NoExecute|)\Z")] = (
        ""
    )
    toleration_seconds: Seconds | None = None


class KubernetesOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where in a cluster the replicas of a role run, and in what."""

    namespace: Namespace = ""  # empty: the server's own
    container_image: ImageName = ""  # empty: one with the Python of the job
    node_selector: Annotated[dict[LabelKey, LabelValue], _MOST] = {}
    tolerations: Annotated[tuple[Toleration, ...], _MOST] = ()
    service_account: OptionalName = ""
    queue: LabelValue = ""
    priority_class: OptionalName = ""
    volumes: Annotated[dict[MountPath, Source], _MOST] = {}  # as `read_source` understands them
    image_pull_secrets: Annotated[tuple[ObjectName, ...], _MOST] = ()
    pod_patch: dict[str, Any] = {}


class PodSource(msgspec.Struct, frozen=True, kw_only=True):
    """What a pod sees under a path: something of the cluster's, by its kind and name."""

    kind: str  # "claim" | "config" | "secret" | "host" | "scratch" | "memory"
    name: str  # of a folder of the node: its path; of scratch and memory: a size, or empty
    inside: str = ""  # the part of it that is seen
    is_read_only: bool = False


KINDS = {
    "claim": "claim:NAME, a persistent volume claim (claim:NAME/FOLDER for a part of it)",
    "config": "config:NAME, a config map",
    "secret": "secret:NAME, a secret",
    "host": "host:/PATH, a folder of the node",
    "scratch": "scratch:10GB, an empty folder of the pod's",
    "memory": "memory:2GB, an empty folder in memory",
}
_NAME = re.compile(rf"{_DNS}(\.{_DNS})*", re.ASCII)


def read_source(text: str) -> PodSource:
    """What a volume's source means; those that end in `:ro` cannot be written to.

    >>> read_source("claim:datasets/imagenet:ro")
    PodSource(kind='claim', name='datasets', inside='imagenet', is_read_only=True)
    >>> read_source("host:/mnt/data").name
    '/mnt/data'
    >>> read_source("/mnt/data")
    Traceback (most recent call last):
    ...
    ValueError: '/mnt/data' is nothing that a pod has; write claim:NAME, a persistent volume \
claim (claim:NAME/FOLDER for a part of it); or config:NAME, secret:NAME, host:/PATH, \
scratch:SIZE, memory:SIZE
    """
    kind, colon, rest = text.partition(":")
    if not colon or kind not in KINDS:
        raise ValueError(
            f"{shown(text)} is nothing that a pod has; write {KINDS['claim']}; "
            "or config:NAME, secret:NAME, host:/PATH, scratch:SIZE, memory:SIZE"
        )
    is_read_only = rest.endswith(":ro")
    rest = rest.removesuffix(":ro")
    if kind in ("scratch", "memory"):
        if rest:
            parse_size(rest)
        return PodSource(kind=kind, name=rest, is_read_only=is_read_only)
    if kind == "host":
        if not rest.startswith("/") or ".." in rest.split("/"):
            raise ValueError(f"{shown(text)} is no absolute path; write host:/mnt/data")
        return PodSource(kind=kind, name=posixpath.normpath(rest), is_read_only=is_read_only)
    name, _, inside = rest.partition("/")
    if not _NAME.fullmatch(name) or ".." in inside.split("/"):
        raise ValueError(f"{shown(text)} has no name of an object; write {KINDS[kind]}")
    return PodSource(kind=kind, name=name, inside=inside.strip("/"), is_read_only=is_read_only)


def mount_flaw(path: str) -> str:
    """Why nothing can be seen under a path in a pod; empty if it can.

    >>> mount_flaw("data")
    "'data' is not absolute; in a pod a volume has a path such as '/data'"
    >>> mount_flaw("/windlass/x")
    "'/windlass/x' is Windlass's own; choose another, such as '/data'"
    """
    normal = mount_place(path)
    if not path.startswith("/") or normal == "/" or ".." in path.split("/"):
        return f"{shown(path)} is not absolute; in a pod a volume has a path such as '/data'"
    if ":" in path:
        return f"{shown(path)} has a colon, which no path of a volume may have"
    if any(normal == own or normal.startswith(own + "/") for own in OURS):
        return f"{shown(path)} is Windlass's own; choose another, such as '/data'"
    return ""


def mount_place(path: str) -> str:
    """An absolute path as the pod has it, however it is written.

    >>> mount_place("//data/./train/")
    '/data/train'
    """
    # Two slashes at the beginning are left by `normpath`; to a machine they are one.
    return posixpath.normpath("/" + path.lstrip("/")) if path.startswith("/") else path


def mounts_flaw(paths: Iterable[str]) -> str:
    """Why not all of several paths can be seen in a pod; empty if they can.

    >>> mounts_flaw(["/data", "/models", "/data/"])
    "'/data' and '/data/' are one place; name it once"
    """
    first_by_place: dict[str, str] = {}
    for path in paths:
        first = first_by_place.setdefault(mount_place(path), path)
        if first != path:
            return f"{shown(first)} and {shown(path)} are one place; name it once"
    return ""


def patch_flaw(patch: object) -> str:
    """Why something cannot be laid over a pod; empty if it can.

    >>> patch_flaw({"hostNetwork": True}), patch_flaw([1])
    ('', '[1] is no mapping; write {"hostNetwork": True}')
    >>> patch_flaw({"spec": "x"})
    "spec: 'x' is no mapping"
    """
    if not isinstance(patch, dict):
        return f'{shown(patch)} is no mapping; write {{"hostNetwork": True}}'
    if _depth(patch) > _DEEPEST_PATCH:
        return f"it is nested deeper than {_DEEPEST_PATCH}"
    try:
        written = msgspec.json.encode(patch)
    except (TypeError, ValueError, RecursionError, UnicodeError) as error:
        return f"it holds what is no JSON: {error}"
    if len(written) > _LARGEST_PATCH:
        return f"it has more than {_LARGEST_PATCH} bytes"
    return shape_flaw(msgspec.json.decode(written))


def problems_of_options(options: KubernetesOptions) -> list[str]:
    """What is wrong with what a role says of the cluster, beyond its types; a sentence each."""
    problems = []
    for target, source in options.volumes.items():
        flaw = mount_flaw(target)
        if flaw:
            problems.append(f"volumes: {flaw}")
        try:
            read_source(source)
        except ValueError as error:
            problems.append(f"volumes: {error}")
    if flaw := mounts_flaw(options.volumes):
        problems.append(f"volumes: {flaw}")
    if flaw := patch_flaw(options.pod_patch):
        problems.append(f"pod_patch: {flaw}")
    return problems


def _depth(value: object, most: int = _DEEPEST_PATCH + 1) -> int:
    """How deep it is nested; it is looked into no further than needed."""
    if most == 0 or not isinstance(value, (dict, list, tuple)):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max((_depth(item, most - 1) for item in inner), default=0)
