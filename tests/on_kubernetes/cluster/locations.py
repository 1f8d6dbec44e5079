"""Locations: folders of the cluster, its addresses, its names."""

from __future__ import annotations

import os
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "windlass" / "kube"
LOCK = CACHE / "lock"
"""Held while a process builds, starts or stops a cluster."""

NUMBER = int(os.environ.get("WINDLASS_KUBE_NUMBER", "0"))
"""The number of the cluster. Several clusters can run on one machine."""

_SUFFIX = f"-{NUMBER}" if NUMBER else ""

NAME = f"windlass-kube{_SUFFIX}"
"""The name of its control groups and its firewall rules."""

STATE = CACHE / f"run{_SUFFIX}"
"""All files of a running cluster. Deleted when the cluster stops."""

LOGS = STATE / "logs"
KEYS = STATE / "keys"
KUBECONFIG = STATE / "kubeconfig"
"""The kubeconfig with all permissions. Exists only while the cluster runs."""

NODE = "windlass-node"
SOCKET = "/run/windlass/containerd.sock"
"""The socket of containerd, as its namespace sees it."""

# The machine and the cluster's node are the two ends of one cable. The machine sees only these two
# addresses. Pods and services have theirs behind the node.
LINK = f"wlkube{NUMBER}"
MACHINE_ADDRESS = f"10.87.{NUMBER}.1"
NODE_ADDRESS = f"10.87.{NUMBER}.2"
LINK_NETWORK = f"10.87.{NUMBER}.0/30"
POD_NETWORK = "10.88.0.0/16"
SERVICE_NETWORK = "10.96.0.0/16"
API_SERVICE_ADDRESS = "10.96.0.1"
API_SERVER = f"https://{NODE_ADDRESS}:6443"
DOMAIN = "cluster.local"

PAUSE_IMAGE = "windlass-pause:test"
WORKER_IMAGE = "windlass-worker:test"

USERS = ("limited", "alice", "bob")
"""Accounts without permissions, until a test grants some."""
