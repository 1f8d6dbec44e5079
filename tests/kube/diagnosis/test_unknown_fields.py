"""Fields of a pod that the cluster dropped, compared item by item."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.kube.diagnosis.unknown_fields import dropped_fields, likely_field

TRAIN = {"name": "data", "mountPath": "/train", "subPath": "train"}
TEST = {"name": "data", "mountPath": "/test", "subPath": "test"}
TOKEN = {"name": "kube-api-access", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
BY_HOST = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}


@pytest.mark.parametrize(
    ("sent", "got", "dropped"),
    [
        pytest.param(
            {"volumeMounts": [TRAIN, {**TEST, "readonly": True}]},
            {"volumeMounts": [TOKEN, TEST, TRAIN]},
            ["volumeMounts[/test].readonly"],
            id="two mounts of one volume",
        ),
        pytest.param(
            {"ports": [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP", "x": 1}]},
            {
                "ports": [
                    {"containerPort": 53, "protocol": "UDP"},
                    {"containerPort": 53, "protocol": "TCP"},
                ]
            },
            ["ports[53].x"],
            id="one port of two protocols",
        ),
        pytest.param(
            {"env": [{"name": "A", "valeu": "1"}, {"name": "A", "value": "2"}]},
            {"env": [{"name": "A"}, {"name": "A", "value": "2"}]},
            ["env[A].valeu"],
            id="one variable twice",
        ),
        pytest.param(
            {"required": [BY_HOST, {**BY_HOST, "namespaceSelectr": {"a": "b"}}]},
            {"required": [BY_HOST, BY_HOST]},
            ["required[1].namespaceSelectr"],
            id="two rules of one topology",
        ),
        pytest.param(
            {"tolerations": [{"key": "gpu", "efect": "NoSchedule"}, {"key": "gpu", "value": "b"}]},
            {"tolerations": [{"key": "gpu"}, {"key": "gpu", "value": "b"}, NOT_READY]},
            ["tolerations[0].efect"],
            id="two tolerations of one key beside one that the cluster adds",
        ),
    ],
)
def test_a_dropped_field_is_reported_with_its_item(
    sent: dict[str, Any], got: dict[str, Any], dropped: list[str]
) -> None:
    assert list(dropped_fields(sent, got)) == dropped


def test_the_intended_name_is_found_behind_any_label() -> None:
    assert likely_field("spec.containers[main].volumeMounts[/v1.2].subpath") == "subPath"
    assert likely_field("spec.containers[main].env[A.B].valeu") == "value"
