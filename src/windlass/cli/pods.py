"""The pods of a trial: where each of its replicas ran, and what there was to run in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.client.replicas import Replica
    from windlass.model.records import TrialRecord

Packages = Mapping[str, Sequence[str]]  # by the digest of their list


def package_lists(record: TrialRecord) -> list[str]:
    """The digests of what was installed in its pods, each once."""
    found = [each.pod.packages for each in record.attempts if each.pod is not None]
    return list(dict.fromkeys(digest for digest in found if digest))


def pod_lines(record: TrialRecord, packages: Packages) -> Iterator[tuple[str, str]]:
    """Labels and values: of a replica alone all, of several what they have in common or not."""
    from windlass.cli.text import counted
    from windlass.client.replicas import replicas_of

    replicas = [each for each in replicas_of(record) if each.pod is not None]
    if not replicas:
        return
    if len(record.spec.roles) == 1 and record.spec.roles[0].replicas == 1:
        yield from _said(replicas, "pod", lambda pod: pod.name)
        yield "node", replicas[0].node
    yield from _said(replicas, "namespace", lambda pod: pod.namespace)
    yield from _said(replicas, "image", lambda pod: pod.image)
    yield from _said(replicas, "found as", lambda pod: _digest_of(pod.image_id))
    yield from _said(replicas, "platform", lambda pod: pod.platform)
    yield from _said(replicas, "Python", lambda pod: pod.python)
    yield from _said(
        replicas,
        "installed",
        lambda pod: counted(len(packages[pod.packages]), "package") if pod.packages else "",
    )


def pods_in_full(record: TrialRecord, packages: Packages) -> list[dict[str, Any]]:
    """For programs: the pod of every attempt that had one, with its packages."""
    import msgspec

    return [
        {
            "role": each.role,
            "index": each.index,
            "attempt": each.attempt,
            "node": each.node,
            **msgspec.structs.asdict(each.pod),
            "packages": list(packages[each.pod.packages]) if each.pod.packages else [],
        }
        for each in record.attempts
        if each.pod is not None
    ]


def _said(
    replicas: Sequence[Replica], label: str, of: Callable[[Any], str]
) -> Iterator[tuple[str, str]]:
    """What all of them have once; else each value with who has it."""
    values: dict[str, list[str]] = {}
    for each in replicas:
        values.setdefault(of(each.pod), []).append(each.name)
    values.pop("", None)
    for value, names in values.items():
        of_whom = f"  ({', '.join(names)})" if len(values) > 1 else ""
        yield label, value + of_whom


def _digest_of(image_id: str) -> str:
    """The digest by which a machine knows an image, without what comes before it.

    >>> _digest_of("docker-pullable://lab/train@sha256:07ea31c0")
    'sha256:07ea31c0'
    """
    return image_id.rpartition("@")[2].rpartition("//")[2]
