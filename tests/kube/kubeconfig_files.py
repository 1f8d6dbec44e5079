"""Kubeconfig files of tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write_kubeconfig(
    path: Path, *names: str, server: str = "https://{}.example:6443", **user: Any
) -> Path:
    """Write a file with a context, a cluster and a user of each name. The first one is current."""
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": names[0],
        "clusters": [{"name": n, "cluster": {"server": server.format(n)}} for n in names],
        "users": [{"name": f"{n}-user", "user": user or {"token": f"of-{n}"}} for n in names],
        "contexts": [
            {"name": n, "context": {"cluster": n, "user": f"{n}-user", "namespace": f"of-{n}"}}
            for n in names
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(kubeconfig))  # JSON is YAML
    return path
