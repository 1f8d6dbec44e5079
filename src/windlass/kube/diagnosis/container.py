"""Explains why a container cannot start, using kubelet and container runtime messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from windlass.kube.explanation import Explanation

Pod = Mapping[str, Any]


def why_unstartable(pod: Pod, message: str, image: str) -> Explanation | None:
    """Explain a message from the kubelet or the container runtime about a container."""
    for pattern, explanation in _LACKS:
        match = pattern.search(message)
        if match:
            return explanation(match, pod, image)
    return None


def _secret(match: re.Match[str], pod: Pod, _image: str) -> Explanation:
    kind, name = match["kind"].lower(), match["name"]
    noun = "config map" if kind == "configmap" else kind
    return Explanation(
        reason="ConfigMapMissing" if kind == "configmap" else "SecretMissing",
        sentence=f"There is no {noun} {name} in namespace {_namespace(pod)}.",
        remedy=f"Create it: kubectl -n {_namespace(pod)} create "
        f"{'configmap' if kind == 'configmap' else 'secret generic'} {name} --from-literal=...",
    )


def _key(match: re.Match[str], pod: Pod, _image: str) -> Explanation:
    kind = match["kind"].lower()
    return Explanation(
        reason="KeyMissing",
        sentence=f"The {'config map' if kind == 'configmap' else kind} {match['name']} has no "
        f"key {match['key']}.",
        remedy=f"See its keys: kubectl -n {_namespace(pod)} describe {kind} {match['name']}",
    )


def _claim(match: re.Match[str], pod: Pod, _image: str) -> Explanation:
    return Explanation(
        reason="VolumeMissing",
        sentence=f"There is no volume claim {match['name']} in namespace {_namespace(pod)}.",
        remedy="Name an existing claim (volumes= of wl.Kubernetes): kubectl -n "
        f"{_namespace(pod)} get pvc",
    )


def _taken(match: re.Match[str], _pod: Pod, _image: str) -> Explanation:
    return Explanation(
        reason="VolumeTaken",
        sentence=f"The volume {match['name']} is in use on another machine and can be "
        "mounted on only one.",
        remedy="Stop the pods that use it, or use a volume that several machines can "
        "mount (ReadWriteMany).",
    )


def _no_program(match: re.Match[str], _pod: Pod, image: str) -> Explanation:
    program = match["program"].rsplit("/", 1)[-1]
    of_image = f"The image {image}" if image else "The image"
    if program.startswith("python"):
        return Explanation(
            reason="NoPython",
            sentence=f"{of_image} has no {program}, which Windlass needs to start programs.",
            remedy="Use an image with Python 3.9 or newer (container_image= of "
            "wl.Kubernetes), such as python:3.12-slim.",
        )
    return Explanation(
        reason="NoProgram",
        sentence=f"{of_image} has no {match['program']}.",
        remedy="Install it in the image, or use another image (container_image= of wl.Kubernetes).",
    )


def _other_machine(_match: re.Match[str], _pod: Pod, image: str) -> Explanation:
    of_image = f"The image {image}" if image else "The image"
    return Explanation(
        reason="WrongArchitecture",
        sentence=f"{of_image} is built for another processor architecture than that of "
        "its machine.",
        remedy="Build it for both (docker buildx build --platform linux/amd64,"
        "linux/arm64), or choose machines: "
        'node_selector={"kubernetes.io/arch": "arm64"} of wl.Kubernetes.',
    )


def _not_executable(match: re.Match[str], _pod: Pod, image: str) -> Explanation:
    return Explanation(
        reason="NotExecutable",
        sentence=f"{match['program']} in the image {image} is not executable.",
        remedy="Run chmod +x on it when you build the image.",
    )


def _root(_match: re.Match[str], _pod: Pod, image: str) -> Explanation:
    return Explanation(
        reason="RunsAsRoot",
        sentence=f"The image {image} runs as root, which is not allowed for this pod.",
        remedy="Set the user: pod_patch= of wl.Kubernetes with a securityContext "
        "(runAsUser), or build the image with a USER.",
    )


def _memory_low(_match: re.Match[str], _pod: Pod, _image: str) -> Explanation:
    return Explanation(
        reason="OutOfMemory",
        sentence="Its memory limit is too low to start.",
        remedy="Request more: memory= of wl.Kubernetes.",
    )


Explainer = Callable[[re.Match[str], Pod, str], Explanation]
_LACKS: tuple[tuple[re.Pattern[str], Explainer], ...] = (
    (
        re.compile(
            r"couldn't find key (?P<key>\S+) in "
            r"(?P<kind>Secret|ConfigMap) [^/]+/(?P<name>\S+)"
        ),
        _key,
    ),
    (
        re.compile(r"references non-existent (?P<kind>secret|config) key: (?P<key>\S+)(?P<name>)"),
        _key,
    ),
    (re.compile(r'(?P<kind>secret|configmap) "(?P<name>[^"]+)" not found', re.IGNORECASE), _secret),
    (re.compile(r'persistentvolumeclaim "(?P<name>[^"]+)" not found'), _claim),
    (re.compile(r'Multi-Attach error for volume "(?P<name>[^"]+)"'), _taken),
    (re.compile(r"runAsNonRoot and image will run as root"), _root),
    (
        re.compile(
            r'exec: "(?P<program>[^"]+)": (?:executable file not found|stat [^:]*: no such file)'
        ),
        _no_program,
    ),
    (re.compile(r"(?P<program>[\w./-]+): (?:command )?not found"), _no_program),
    (re.compile(r"exec format error"), _other_machine),
    (re.compile(r'exec: "(?P<program>[^"]+)": permission denied'), _not_executable),
    (re.compile(r"container init was OOM-killed|memory limit too low"), _memory_low),
)


def _namespace(pod: Pod) -> str:
    return str((pod.get("metadata") or {}).get("namespace") or "default")
