"""Where things are: folders of the cluster, its addresses, its names."""

from __future__ import annotations

import os
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "windlass" / "kube"
LOCK = CACHE / "lock"
"""Held by whoever builds, starts or stops."""

STATE = CACHE / "run"
"""All that a running cluster writes; gone when it is stopped."""

LOGS = STATE / "logs"
KEYS = STATE / "keys"
KUBECONFIG = STATE / "kubeconfig"
"""How to get at the cluster with all rights; there only while the cluster is."""

NODE = "windlass-node"
CGROUP = "windlass-kube"
SOCKET = "/run/windlass/containerd.sock"
"""Of containerd, as its namespace sees it."""

# The machine and the cluster's node are the two ends of one cable. Only these two addresses are to
# be seen on the machine; pods and services have theirs behind the node.
LINK = "wlkube0"
MACHINE_ADDRESS = "10.87.0.1"
NODE_ADDRESS = "10.87.0.2"
LINK_NETWORK = "10.87.0.0/30"
POD_NETWORK = "10.88.0.0/16"
SERVICE_NETWORK = "10.96.0.0/16"
API_SERVICE_ADDRESS = "10.96.0.1"
API_SERVER = f"https://{NODE_ADDRESS}:6443"
DOMAIN = "cluster.local"

PAUSE_IMAGE = "windlass-pause:test"
WORKER_IMAGE = "windlass-worker:test"

USERS = ("limited", "alice", "bob")
"""Accounts without any rights, until a test gives them some."""
