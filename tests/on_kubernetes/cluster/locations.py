"""Where things are: folders of the cluster, its addresses, its names."""

from __future__ import annotations

import os
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "windlass" / "kube"
LOCK = CACHE / "lock"
"""Held by whoever builds, starts or stops."""

NUMBER = int(os.environ.get("WINDLASS_KUBE_NUMBER", "0"))
"""Which cluster of this machine is meant: there can be several, next to each other."""

_SUFFIX = f"-{NUMBER}" if NUMBER else ""

NAME = f"windlass-kube{_SUFFIX}"
"""What its control groups and its rules on the machine are known by."""

STATE = CACHE / f"run{_SUFFIX}"
"""All that a running cluster writes; gone when it is stopped."""

LOGS = STATE / "logs"
KEYS = STATE / "keys"
KUBECONFIG = STATE / "kubeconfig"
"""How to get at the cluster with all rights; there only while the cluster is."""

NODE = "windlass-node"
SOCKET = "/run/windlass/containerd.sock"
"""Of containerd, as its namespace sees it."""

# The machine and the cluster's node are the two ends of one cable. Only these two addresses are to
# be seen on the machine; pods and services have theirs behind the node.
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
"""Accounts without any rights, until a test gives them some."""
