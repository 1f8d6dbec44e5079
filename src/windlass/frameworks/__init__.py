"""Frameworks of distributed training: the environment variables by which replicas find each other.

A framework is a small value that turns a description of the cluster into environment variables.
Other packages add frameworks by the entry point group `windlass.frameworks`. Imports `model` only
and does no I/O except the lookup of entry points. It makes no decisions: the engine decides which
replicas determine the success of a job.
"""

from windlass.frameworks.cluster import Cluster, Member, build_cluster
from windlass.frameworks.framework import Framework
from windlass.frameworks.problems import find_framework_problems
from windlass.frameworks.registry import find_framework, framework_names

__all__ = [
    "Cluster",
    "Framework",
    "Member",
    "build_cluster",
    "find_framework",
    "find_framework_problems",
    "framework_names",
]
