"""Job options that apply only to Kubernetes clusters."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from typing import Annotated, Any

import msgspec

from windlass.model.errors import shown
from windlass.model.kubernetes.pod_shapes import shape_flaw
from windlass.model.text.quantities import parse_size

# The patterns end in \Z, because $ would accept a trailing line break.
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

OURS = ("/windlass", "/windlass-home")  # the pod's paths that Windlass itself uses
_MOST = msgspec.Meta(max_length=100)
_LARGEST_PATCH = 100_000
_DEEPEST_PATCH = 30


class Toleration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A node taint that a pod tolerates, in Kubernetes API form."""

    key: Annotated[str, msgspec.Meta(max_length=317)] = ""
    operator: Annotated[str, msgspec.Meta(pattern=r"^(Exists|Equal|)\Z")] = ""
    value: LabelValue = ""
    effect: Annotated[str, msgspec.Meta(pattern=r"^(NoSchedule|PreferNoSchedule|NoExecute|)\Z")] = (
        ""
    )
    toleration_seconds: Seconds | None = None


class KubernetesOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The options for a role's pods, such as image, nodes, volumes and patch."""

    namespace: Namespace = ""  # if empty, the server's own namespace
    container_image: ImageName = ""  # if empty, an image with the job's Python version
    node_selector: Annotated[dict[LabelKey, LabelValue], _MOST] = {}
    tolerations: Annotated[tuple[Toleration, ...], _MOST] = ()
    service_account: OptionalName = ""
    queue: LabelValue = ""
    priority_class: OptionalName = ""
    volumes: Annotated[dict[MountPath, Source], _MOST] = {}  # in the notation of `read_source`
    image_pull_secrets: Annotated[tuple[ObjectName, ...], _MOST] = ()
    pod_patch: dict[str, Any] = {}


class PodSource(msgspec.Struct, frozen=True, kw_only=True):
    """The source of a pod's volume: the kind and name of a cluster object."""

    kind: str  # "claim" | "config" | "secret" | "host" | "scratch" | "memory"
    name: str  # for "host": a path; for "scratch" and "memory": a size, or empty
    inside: str = ""  # the subfolder of the source to mount
    is_read_only: bool = False


_VOLUME_SOURCES = {
    "claim": "claim:NAME, a persistent volume claim (claim:NAME/FOLDER for a part of it)",
    "config": "config:NAME, a config map",
    "secret": "secret:NAME, a secret",
    "host": "host:/PATH, a folder of the node",
    "scratch": "scratch:10GB, an empty folder of the pod",
    "memory": "memory:2GB, an empty folder in memory",
}
_NAME = re.compile(rf"{_DNS}(\.{_DNS})*", re.ASCII)


def read_source(text: str) -> PodSource:
    """Parse a volume's source. A source that ends in `:ro` is read-only.

    >>> read_source("claim:datasets/imagenet:ro")
    PodSource(kind='claim', name='datasets', inside='imagenet', is_read_only=True)
    >>> read_source("host:/mnt/data").name
    '/mnt/data'
    >>> read_source("/mnt/data")
    Traceback (most recent call last):
    ...
    ValueError: '/mnt/data' is not a volume source; write claim:NAME, a persistent volume claim \
(claim:NAME/FOLDER for a part of it); or config:NAME, secret:NAME, host:/PATH, \
scratch:SIZE, memory:SIZE
    """
    kind, colon, rest = text.partition(":")
    if not colon or kind not in _VOLUME_SOURCES:
        raise ValueError(
            f"{shown(text)} is not a volume source; write {_VOLUME_SOURCES['claim']}; "
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
            raise ValueError(f"{shown(text)} is not an absolute path; write host:/mnt/data")
        return PodSource(kind=kind, name=posixpath.normpath(rest), is_read_only=is_read_only)
    name, _, inside = rest.partition("/")
    if not _NAME.fullmatch(name) or ".." in inside.split("/"):
        raise ValueError(f"{shown(text)} does not name an object; write {_VOLUME_SOURCES[kind]}")
    return PodSource(kind=kind, name=name, inside=inside.strip("/"), is_read_only=is_read_only)


def mount_flaw(path: str) -> str:
    """Return why a path cannot be a mount path in a pod, or "" if it can.

    >>> mount_flaw("data")
    "'data' is not an absolute path; write the path in the pod, such as '/data'"
    >>> mount_flaw("/windlass/x")
    "'/windlass/x' is reserved for Windlass; choose another path, such as '/data'"
    """
    normal = mount_place(path)
    if not path.startswith("/") or normal == "/" or ".." in path.split("/"):
        return f"{shown(path)} is not an absolute path; write the path in the pod, such as '/data'"
    if ":" in path:
        return f"{shown(path)} contains a colon; Kubernetes allows none in the path of a volume"
    if any(normal == own or normal.startswith(own + "/") for own in OURS):
        return f"{shown(path)} is reserved for Windlass; choose another path, such as '/data'"
    return ""


def mount_place(path: str) -> str:
    """Normalize a volume's mount path in a pod.

    >>> mount_place("//data/./train/")
    '/data/train'
    """
    # `normpath` keeps two leading slashes, but the operating system treats them as one.
    return posixpath.normpath("/" + path.lstrip("/")) if path.startswith("/") else path


def mounts_flaw(paths: Iterable[str]) -> str:
    """Return why paths cannot be used together as mount paths in a pod, or "" if they can.

    >>> mounts_flaw(["/data", "/models", "/data/"])
    "'/data' and '/data/' are the same path; mount it once"
    """
    first_by_place: dict[str, str] = {}
    for path in paths:
        first = first_by_place.setdefault(mount_place(path), path)
        if first != path:
            return f"{shown(first)} and {shown(path)} are the same path; mount it once"
    return ""


def patch_flaw(patch: object) -> str:
    """Return why a value cannot be a pod patch, or "" if it can.

    >>> patch_flaw({"hostNetwork": True}), patch_flaw([1])
    ('', '[1] is not a mapping; write {"hostNetwork": True}')
    >>> patch_flaw({"spec": "x"})
    "spec: 'x' is not a mapping"
    """
    if not isinstance(patch, dict):
        return f'{shown(patch)} is not a mapping; write {{"hostNetwork": True}}'
    if _depth(patch) > _DEEPEST_PATCH:
        return f"it has more than {_DEEPEST_PATCH} levels of nesting"
    try:
        written = msgspec.json.encode(patch)
    except (TypeError, ValueError, RecursionError, UnicodeError) as error:
        return f"it contains a value that JSON cannot hold: {error}"
    if len(written) > _LARGEST_PATCH:
        return f"it has more than {_LARGEST_PATCH} bytes"
    return shape_flaw(msgspec.json.decode(written))


def problems_of_options(options: KubernetesOptions) -> list[str]:
    """Return the problems with Kubernetes options, one sentence per problem.

    Wrong types are not reported, because the decoder already rejects them.
    """
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
    """Return a value's nesting depth, but at most `most`."""
    if most == 0 or not isinstance(value, (dict, list, tuple)):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max((_depth(item, most - 1) for item in inner), default=0)
