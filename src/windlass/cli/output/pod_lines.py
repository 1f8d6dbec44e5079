"""Formats the nodes, images and packages of a trial's pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.client.resources.trial.replicas import Replica
    from windlass.model.records import TrialRecord

Packages = Mapping[str, Sequence[str]]  # maps the digest of a package list to the packages


def package_lists(record: TrialRecord) -> list[str]:
    """Return the digests of the package lists of all pods in a trial, without duplicates."""
    digests = [attempt.pod.packages for attempt in record.attempts if attempt.pod is not None]
    return list(dict.fromkeys(digest for digest in digests if digest))


def pod_lines(record: TrialRecord, packages: Packages) -> Iterator[tuple[str, str]]:
    """Yield labels and values that describe a trial's pods.

    If pods differ in a value, each value is listed with the names of its replicas.
    """
    from windlass.cli.output.text import counted
    from windlass.client.resources.trial.replicas import replicas_of

    replicas = [replica for replica in replicas_of(record) if replica.pod is not None]
    if not replicas:
        return
    if len(record.spec.roles) == 1 and record.spec.roles[0].replicas == 1:
        yield from _value_lines(replicas, "pod", lambda pod: pod.name)
        yield "node", replicas[0].node
    yield from _value_lines(replicas, "namespace", lambda pod: pod.namespace)
    yield from _value_lines(replicas, "image", lambda pod: pod.image)
    yield from _value_lines(replicas, "found as", lambda pod: _digest_of(pod.image_id))
    yield from _value_lines(replicas, "platform", lambda pod: pod.platform)
    yield from _value_lines(replicas, "Python", lambda pod: pod.python)
    yield from _value_lines(
        replicas,
        "installed",
        lambda pod: counted(len(packages[pod.packages]), "package") if pod.packages else "",
    )


def pods_in_full(record: TrialRecord, packages: Packages) -> list[dict[str, Any]]:
    """Return the pod and packages of each attempt that ran in a pod, for JSON output."""
    import msgspec

    return [
        {
            "role": attempt.role,
            "index": attempt.index,
            "attempt": attempt.attempt,
            "node": attempt.node,
            **msgspec.structs.asdict(attempt.pod),
            "packages": list(packages[attempt.pod.packages]) if attempt.pod.packages else [],
        }
        for attempt in record.attempts
        if attempt.pod is not None
    ]


def _value_lines(
    replicas: Sequence[Replica], label: str, read: Callable[[Any], str]
) -> Iterator[tuple[str, str]]:
    """Yield the value that all replicas share, or else each value with its replicas' names."""
    values: dict[str, list[str]] = {}
    for replica in replicas:
        values.setdefault(read(replica.pod), []).append(replica.name)
    values.pop("", None)
    for value, names in values.items():
        owners = f"  ({', '.join(names)})" if len(values) > 1 else ""
        yield label, value + owners


def _digest_of(image_id: str) -> str:
    """Return the digest in an image id, without the id's prefix.

    >>> _digest_of("docker-pullable://lab/train@sha256:07ea31c0")
    'sha256:07ea31c0'
    """
    return image_id.rpartition("@")[2].rpartition("//")[2]
