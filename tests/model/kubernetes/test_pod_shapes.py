"""Patches of pods: the shapes that are allowed, and the errors for others."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.model.kubernetes.job_options import patch_flaw


@pytest.mark.parametrize(
    ("patch", "flaw"),
    [
        ({"spec": "x"}, "spec: 'x' is not a mapping"),
        ({"spec": ["x"]}, "spec: ['x'] is not a mapping"),
        ({"metadata": "x"}, "metadata: 'x' is not a mapping"),
        ({"metadata": {"labels": ["a"]}}, "metadata.labels: ['a'] is not a mapping"),
        ({"metadata": {"annotations": {"a": 1}}}, "metadata.annotations: 1 of 'a' is not a string"),
        ({"containers": {"main": {}}}, "spec.containers: {'main': {}} is not a list"),
        ({"containers": ["main"]}, "spec.containers[0]: 'main' is not a mapping"),
        ({"containers": [{"tty": True}]}, "spec.containers[0]: it needs a name"),
        ({"containers": [{"name": ["x"]}]}, "spec.containers[0].name: ['x'] is not a string"),
        ({"spec": {"volumes": [{"name": 1}]}}, "spec.volumes[0].name: 1 is not a string"),
        (
            {"containers": [{"name": "main", "env": [{"name": {"a": 1}}]}]},
            "spec.containers[0].env[0].name: {'a': 1} is not a string",
        ),
        (
            {"initContainers": [{"name": "a"}, {"name": "b", "volumeMounts": [{"name": "v"}]}]},
            "spec.initContainers[1].volumeMounts[0]: it needs a mountPath",
        ),
        (
            {"containers": [{"name": "main", "ports": [{"containerPort": "80"}]}]},
            "spec.containers[0].ports[0].containerPort: '80' is not a number",
        ),
    ],
    ids=lambda parameter: parameter if isinstance(parameter, str) else "",
)
def test_a_patch_of_another_shape_is_reported_with_its_path(
    patch: dict[str, Any], flaw: str
) -> None:
    assert patch_flaw(patch).startswith(flaw)


@pytest.mark.parametrize(
    "patch",
    [
        {},
        {"metadata": None, "spec": None},
        {"metadata": {"labels": {"env": "lab", "gone": None}, "annotations": None}},
        {"nodeSelector": {"env": "lab", "volumes": "ssd"}},
        {"containers": None, "volumes": ()},
        {"containers": ({"name": "main", "env": None, "ports": [{"containerPort": 80}]},)},
        {"affinity": {"podAffinity": {"env": ["of", "others"]}}},
    ],
)
def test_removals_and_values_for_the_cluster_to_validate_are_allowed(
    patch: dict[str, Any],
) -> None:
    assert patch_flaw(patch) == ""
