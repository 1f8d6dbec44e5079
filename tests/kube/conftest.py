"""What the tests on Kubernetes share."""

from kube.fixtures import admin, alone, cluster, core, namespace, own_cluster, sharing

__all__ = ["admin", "alone", "cluster", "core", "namespace", "own_cluster", "sharing"]
