"""What the tests on Kubernetes share."""

import pytest

from kube.fixtures import (
    admin,
    alone,
    cluster,
    connection,
    core,
    gate,
    home_behind_proxy,
    home_with_cluster,
    namespace,
    own_cluster,
    proxy,
    sharing,
    skip_without_cluster,
    turnstile,
    windlass_image,
)
from kube.operator_fixtures import definitions, jobs, kubeflow_python, operator
from kube.place_fixtures import dialled, local_home, place, reached

__all__ = [
    "admin", "alone", "cluster", "connection", "core", "definitions", "dialled", "gate",
    "home_behind_proxy", "home_with_cluster", "jobs", "kubeflow_python", "local_home", "namespace",
    "operator", "own_cluster", "place", "proxy", "reached", "sharing", "turnstile",
    "windlass_image",
]  # fmt: skip


def pytest_runtest_setup(item: pytest.Item) -> None:
    skip_without_cluster(item)
