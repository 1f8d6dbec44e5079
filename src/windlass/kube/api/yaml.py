"""Converts manifests to YAML, for `kubectl apply -f -`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from windlass.kube.api.client_package import load_kubernetes


def as_yaml(manifests: Iterable[Mapping[str, Any]]) -> str:
    """Return manifests as one YAML text.

    >>> print(as_yaml([{"kind": "Role", "rules": []}, {"kind": "Pod"}]), end="")
    kind: Role
    rules: []
    ---
    kind: Pod
    """
    load_kubernetes()  # the Kubernetes client depends on PyYAML
    import yaml

    return str(yaml.safe_dump_all(manifests, sort_keys=False, explicit_start=False))
