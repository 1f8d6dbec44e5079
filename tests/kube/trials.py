"""Trials in pods: how tests submit them, and what they ask of them and of the cluster."""

from __future__ import annotations

from typing import Any

import windlass as wl
from kube.pods import Namespace
from windlass.runtimes.kubernetes import naming


def there(namespace: Namespace, **more: Any) -> wl.Kubernetes:
    """In a namespace, and of the machine as little as can be."""
    return wl.Kubernetes(**{"namespace": namespace.name, "cpus": 0.05, **more})


def python(program: str, namespace: Namespace, **more: Any) -> wl.Job:
    """A job that runs a program of Python in a pod."""
    executor = more.pop("executor", None) or there(namespace)
    return wl.Job(wl.Command(["python3", "-u", "-c", program]), executor=executor, **more)


def pods_of(namespace: Namespace) -> dict[str, Any]:
    """The pods of trials, by name."""
    found = namespace.core.list_namespaced_pod(namespace.name, label_selector=naming.UID)
    return {each.metadata.name: each for each in found.items}


def is_empty(namespace: Namespace) -> bool:
    """Whether nothing of ours is left there."""
    core, own = namespace.core, {"label_selector": naming.UID}
    lists = (
        core.list_namespaced_pod,
        core.list_namespaced_secret,
        core.list_namespaced_service,
    )
    return not any(each(namespace.name, **own).items for each in lists)


def said(trial: wl.Trial[Any], **which: Any) -> list[str]:
    """The lines that a trial has said so far."""
    return [str(line) for line in trial.logs(**which)]


def what_is_said_of(trial: wl.Trial[Any]) -> str:
    """What is told of its replicas."""
    trial.refresh()
    return " ".join(str(each.message) for each in trial.replicas)
