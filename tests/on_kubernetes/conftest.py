"""Fixtures of the tests on Kubernetes."""

import os

import pytest

import warm_interpreter
from on_kubernetes.both_backends.fixtures import backend, dialled, local_home, reached
from on_kubernetes.fixtures import (
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
from on_kubernetes.operator.fixtures import definitions, jobs, kubeflow_python, operator, others

__all__ = [
    "admin", "alone", "backend", "cluster", "connection", "core", "definitions", "dialled",
    "gate", "home_behind_proxy", "home_with_cluster", "jobs", "kubeflow_python", "local_home",
    "namespace", "operator", "others", "own_cluster", "proxy", "reached", "sharing", "turnstile",
    "windlass_image",
]  # fmt: skip

# These tests check the reports of pods that wait.
os.environ["WINDLASS_REPORT_WAITS"] = "2"

# Most commands of these tests import the client of the cluster, which takes as long as the rest.
warm_interpreter.also_import(
    "kubernetes.client", "kubernetes.config", "windlass.kube.check_cluster",
    "windlass.operator.install_crds", "windlass.operator.operator",
)  # fmt: skip


def pytest_runtest_setup(item: pytest.Item) -> None:
    skip_without_cluster(item)
