"""Frameworks of distributed training: the environment variables by which replicas find each other.

A framework is a small value that turns a description of the cluster into environment variables.
Other packages add frameworks by the entry point group `windlass.frameworks`. Imports `model` only
and does no I/O except the lookup of entry points. It makes no decisions: the engine decides which
replicas determine the success of a job.
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
