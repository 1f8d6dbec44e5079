"""Frameworks for distributed training, such as PyTorch, TensorFlow and JAX.

A framework computes the environment variables that let a job's replicas find each other. Other
packages can add frameworks with the entry point group `windlass.frameworks`. This package imports
only `model`, and does no I/O except searching for entry points. Whether a job succeeds is up to the
engine, not to this package.
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
