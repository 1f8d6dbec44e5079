"""Explains why an image cannot be pulled, using messages from the kubelet and the registry."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from windlass.kube.explanation import Explanation

# the reason if the pod's status only says that the pull is being retried
_BACKING_OFF = "PullRepeated"
_CHOOSE = "container_image= of wl.Kubernetes"


def why_not_pulled(
    reason: str,
    message: str,
    image: str,
    events: Sequence[Mapping[str, Any]],
    pod: Mapping[str, Any],
) -> Explanation:
    """Explain a kubelet message about an image. `events` are in chronological order.

    >>> denied = "failed to resolve reference: pull access denied, repository does not exist"
    >>> why_not_pulled("ErrImagePull", denied, "lab/trian:7", [], {}).sentence
    'The registry has no image lab/trian:7, or requires a password for it.'
    """
    image = image or _image_of(message) or "of the pod"
    namespace = str((pod.get("metadata") or {}).get("namespace") or "default")
    if reason == "InvalidImageName":
        return Explanation(
            "ImageNameInvalid",
            f"{image!r} is not a valid image name.",
            f"Write it as registry/name:tag ({_CHOOSE}).",
        )
    if reason == "ErrImageNeverPull":
        return Explanation(
            "ImageMissing",
            f"Its machine does not have the image {image}, and imagePullPolicy forbids pulling it.",
            "Load it onto the machine, or allow the pull: pod_patch= of wl.Kubernetes "
            "with imagePullPolicy.",
        )
    missing = _missing_secrets(events)
    text = _failure_text(message, events)
    if _is_about_permissions(text) or missing:
        if missing:
            named = ", ".join(missing)
            return Explanation(
                "PullSecretMissing",
                f"There is no secret {named} in namespace {namespace} to pull {image} with.",
                f"Create it: kubectl -n {namespace} create secret docker-registry {missing[0]} "
                "--docker-server=... --docker-username=... --docker-password=...",
            )
        secrets = [
            str(secret.get("name"))
            for secret in (pod.get("spec") or {}).get("imagePullSecrets") or ()
        ]
        if secrets:
            return Explanation(
                "ImageDenied",
                f"The registry has no image {image}, or denies access to {', '.join(secrets)}.",
                f"Check the name ({_CHOOSE}) and the secret: kubectl -n {namespace} get "
                f"secret {secrets[0]}",
            )
        return Explanation(
            "ImageDenied",
            f"The registry has no image {image}, or requires a password for it.",
            f"Check the name ({_CHOOSE}). For a private image, name a secret with the "
            "password: image_pull_secrets= of wl.Kubernetes.",
        )
    for pattern, code, sentence, remedy in _PULL_ERRORS:
        if re.search(pattern, text, re.IGNORECASE):
            return Explanation(code, sentence.format(image=image), remedy)
    why = " ".join(text.split())
    return Explanation(
        "ImageUnavailable" if why else _BACKING_OFF,
        f"The image {image} cannot be pulled{f': {_tail(why)}' if why else '.'}",
        f"Check the name ({_CHOOSE}). Kubernetes tries again.",
    )


_PULL_ERRORS: tuple[tuple[str, str, str, str], ...] = (
    (
        r"no match for platform|exec format error|does not match the specified platform",
        "WrongArchitecture",
        "The image {image} is not built for the processor architecture of its machine.",
        "Build it for both: docker buildx build --platform linux/amd64,linux/arm64",
    ),
    (
        r"not found|manifest unknown|manifest .* unknown|name unknown",
        "ImageMissing",
        "There is no image {image}.",
        f"Check its name and tag ({_CHOOSE}), and that it was pushed.",
    ),
    (
        r"toomanyrequests|too many requests|rate limit",
        "RegistryBusy",
        "The registry of {image} limits the rate of pulls.",
        "Kubernetes tries again. Log in to the registry (image_pull_secrets= of "
        "wl.Kubernetes), or use a mirror.",
    ),
    (
        r"no such host|server misbehaving",
        "RegistryUnknown",
        "The registry of {image} cannot be found from the cluster: its name is unknown there.",
        f"Check the name ({_CHOOSE}) and the network access of the cluster's machines.",
    ),
    (
        r"connection refused|i/o timeout|deadline exceeded|network is unreachable|no route to host"
        r"|TLS handshake|connection reset|EOF",
        "RegistryUnreachable",
        "The registry of {image} does not answer the cluster's machines.",
        "Check their network access. Kubernetes tries again.",
    ),
    (
        r"certificate|x509",
        "RegistryUntrusted",
        "The registry of {image} has a certificate that the cluster's machines do not trust.",
        "Ask an administrator of the cluster to trust it.",
    ),
    (
        r"no space left",
        "DiskFull",
        "The disk of its machine has no space for the image {image}.",
        "Use a smaller image, or ask an administrator of the cluster to free space.",
    ),
)

_REASONS = {
    "ImageDenied", "ImageNameInvalid", "ImageUnavailable", "PullSecretMissing",
    *(code for _, code, _, _ in _PULL_ERRORS),
}  # fmt: skip


def most_specific(before: Explanation | None, now: Explanation | None) -> Explanation | None:
    """Return the earlier explanation of a failed pull if the new explanation gives no cause.

    Between two pulls, the status of a pod does not say why the last pull failed. The cluster may
    also have dropped the event that does.

    >>> unreachable = Explanation("RegistryUnreachable", "The registry does not answer.")
    >>> repeated = why_not_pulled("ImagePullBackOff", "", "lab/train:7", [], {})
    >>> most_specific(unreachable, repeated).sentence
    'The registry does not answer.'
    >>> most_specific(Explanation("Pulling", "It takes long."), repeated) is repeated
    True
    """
    is_kept = before is not None and before.reason in _REASONS
    return before if is_kept and now is not None and now.reason == _BACKING_OFF else now


def _is_about_permissions(text: str) -> bool:
    return bool(
        re.search(
            r"unauthorized|authorization failed|authentication required|access denied|"
            r"insufficient_scope|\b40[13]\b|forbidden|no basic auth credentials|denied:",
            text,
            re.IGNORECASE,
        )
    )


def _missing_secrets(events: Sequence[Mapping[str, Any]]) -> list[str]:
    for event in reversed(events):
        if event.get("reason") == "FailedToRetrieveImagePullSecret":
            match = re.search(r"\(([^)]*)\)", str(event.get("message") or ""))
            return [name.strip() for name in match[1].split(",")] if match else []
    return []


def _failure_text(message: str, events: Sequence[Mapping[str, Any]]) -> str:
    """Return why an image pull failed, from events if the message reports only a pause."""
    if message and not message.startswith("Back-off pulling image"):
        return message
    for event in reversed(events):
        text = str(event.get("message") or "")
        if event.get("reason") == "Failed" and text.startswith("Failed to pull image"):
            return text
    return message.partition(": ErrImagePull: ")[2]


def _image_of(message: str) -> str:
    match = re.search(r'image "([^"]+)"', message)
    return match[1] if match else ""


def _tail(text: str, most: int = 300) -> str:
    text = text if text.endswith(".") else f"{text}."
    return text if len(text) <= most else f"…{text[-most:]}"
