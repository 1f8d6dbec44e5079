"""What the tests on Kubernetes share."""

import pytest

from kube.fixtures import (
    admin,
    alone,
    cluster,
    core,
    gate,
    home_with_cluster,
    namespace,
    own_cluster,
    sharing,
    skip_without_cluster,
    windlass_image,
)
from kube.operator_fixtures import definitions, jobs, kubeflow_python, operator
from kube.place_fixtures import local_home, place, pods

__all__ = [
    "admin", "alone", "cluster", "core", "definitions", "gate", "home_with_cluster", "jobs",
    "kubeflow_python", "local_home", "namespace", "operator", "own_cluster", "place", "pods",
    "sharing", "windlass_image",
]  # fmt: skip


def pytest_runtest_setup(item: pytest.Item) -> None:
    skip_without_cluster(item)
