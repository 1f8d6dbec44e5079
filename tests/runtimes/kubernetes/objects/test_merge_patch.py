"""Merging a user's patch into a pod keeps the whole patch and all unnamed fields of the pod."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.runtimes.kubernetes.objects.merge_patch import merged

OURS = {"name": "windlass", "mountPath": "/windlass"}


def by_host(app: str) -> dict[str, Any]:
    return {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": app}},
    }


def test_two_mounts_of_one_volume_stay_two() -> None:
    parts = [{"name": "data", "mountPath": f"/{part}", "subPath": part} for part in ("a", "b")]
    assert merged({"volumeMounts": [OURS]}, {"volumeMounts": parts}) == {
        "volumeMounts": [OURS, *parts]
    }


def test_a_mount_is_identified_by_its_path() -> None:
    base = {"volumeMounts": [OURS, {"name": "volume-0", "mountPath": "/data"}]}
    patch = {"volumeMounts": [{"name": "other", "mountPath": "/data", "readOnly": True}]}
    assert merged(base, patch) == {"volumeMounts": [OURS, patch["volumeMounts"][0]]}


def test_one_port_with_two_protocols_is_two_ports() -> None:
    tcp, udp = {"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}
    merged_container = merged(
        {"ports": [tcp]}, {"ports": [udp, {"containerPort": 53, "name": "dns"}]}
    )
    assert merged_container == {"ports": [{**tcp, "name": "dns"}, udp]}


@pytest.mark.parametrize("field", ["requiredDuringSchedulingIgnoredDuringExecution", "tolerations"])
def test_a_list_of_items_without_names_replaces_the_old_list(field: str) -> None:
    patch = {field: [by_host("db"), by_host("web")]}
    assert merged({field: [by_host("own")]}, patch) == patch


def test_duplicates_in_a_list_stay() -> None:
    twice = [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)"}, {"name": "A"}]
    base = [{"name": "HOME", "value": "/"}, {"name": "A", "value": "0"}]
    assert merged({"env": base}, {"env": twice}) == {"env": [base[0], *twice]}
    assert merged({"env": twice}, {"env": [{"name": "A", "value": "2"}]}) == {
        "env": [twice[1], {"name": "A", "value": "2"}]
    }


def test_items_of_every_named_list_are_merged_by_name() -> None:
    for field in ("containers", "initContainers", "env", "volumes", "imagePullSecrets"):
        base = [{"name": "a", "x": 1}, {"name": "b"}]
        patch = [{"name": "c"}, {"name": "a", "y": 2}]
        assert merged({field: base}, {field: patch}) == {
            field: [{"name": "a", "x": 1, "y": 2}, {"name": "b"}, {"name": "c"}]
        }
