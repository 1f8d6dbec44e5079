"""Frameworks of distributed training: the environment variables by which replicas find each other.

A framework is a small value: a description of the cluster goes in, variables come out. Other
packages add frameworks by the entry point group `windlass.frameworks`. Imports `model` only, does
no I/O except the lookup of entry points, and decides nothing: the engine decides whose success
counts.
"""

from windlass.frameworks.cluster import Cluster, Member, cluster_of
from windlass.frameworks.framework import Framework
from windlass.frameworks.problems import problems_of
from windlass.frameworks.registry import find_framework, known_frameworks

__all__ = [
    "Cluster",
    "Framework",
    "Member",
    "cluster_of",
    "find_framework",
    "known_frameworks",
    "problems_of",
]
