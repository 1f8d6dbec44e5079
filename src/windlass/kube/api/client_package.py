"""Imports the official Kubernetes client, or raises an error that names the missing extra."""

from __future__ import annotations

from typing import Any

from windlass.model.errors import Unsupported


def load_kubernetes() -> Any:
    """Return the package `kubernetes` after importing its modules `client` and `config`."""
    try:
        import kubernetes.client
        import kubernetes.config
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "kubernetes":
            raise
        from windlass.installation import extra_hint

        raise Unsupported(
            "The Kubernetes backend needs the Kubernetes Python client, which is not "
            "installed here.",
            hint=extra_hint("kubernetes", "kubernetes prometheus-client"),
        ) from None
    return kubernetes
