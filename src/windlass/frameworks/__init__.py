"""Frameworks of distributed training: what a replica must find in its environment to meet the rest.

A framework is a small value: a description of the cluster goes in, variables come out. Those of
others come by the entry point group `windlass.frameworks`. Imports `model` only, does no I/O but
look for entry points, and decides nothing: whose success counts is the engine's business.
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
