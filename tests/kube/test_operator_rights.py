"""An account with the documented rights is enough; without any one of them, that one is named."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from harness import BIN, eventually
from kube.access import Cluster
from kube.operating import Jobs, OperatorProcess, operating
from kube.pods import Namespace
from kube.proxies import Proxy
from windlass.kube.rights import rules_of
from windlass.operator.rights import OF_JOBS, OF_LEASE

RIGHTS = [(right, verb) for right in (*OF_JOBS, *OF_LEASE) for verb in right.verbs]


def _config_of(cluster: Cluster, core: Any, namespace: str, account: str, folder: Path) -> str:
    """The kubeconfig of a service account, made with no rights."""
    core.create_namespaced_service_account(namespace, {"metadata": {"name": account}})
    wanted = {"spec": {"expirationSeconds": 3600}}
    token = core.create_namespaced_service_account_token(account, namespace, wanted).status.token
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"] = [{"name": each["name"], "user": {"token": token}} for each in config["users"]]
    path = folder / f"{account}.yaml"
    path.write_text(yaml.safe_dump(config))
    return str(path)


def _grant(admin: client.ApiClient, namespace: str, account: str, rules: list[Any]) -> None:
    api = client.RbacAuthorizationV1Api(admin)
    body = {"metadata": {"name": account}, "rules": rules}
    api.create_namespaced_role(namespace, body)
    binding = {
        "metadata": {"name": account},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }
    api.create_namespaced_role_binding(namespace, binding)


def test_the_documented_rights_are_enough(
    cluster: Cluster, admin: client.ApiClient, namespace: Namespace, jobs: Jobs, tmp_path: Path
) -> None:
    config = _config_of(cluster, namespace.core, namespace.name, "operator", tmp_path)
    _grant(admin, namespace.name, "operator", [*rules_of(OF_JOBS), *rules_of(OF_LEASE)])
    words = ("--namespace", namespace.name, "--lease-namespace", namespace.name)
    with operating(cluster, *words, kubeconfig=config) as process:
        process.wait_leading()
        die = "import os, sys; sys.exit(137 if os.environ['WINDLASS_ATTEMPT'] == '1' else 0)"
        policy = {"ttlSecondsAfterFinished": 3, "cleanPodPolicy": "All"}
        role = jobs.role(1, die, restartPolicy="ExitCode")
        jobs.create("PyTorchJob", "train", spec={"runPolicy": policy}, Master=role)
        assert jobs.ended("PyTorchJob", "train")["type"] == "Succeeded"
        eventually(lambda: bool(jobs.events("train")), "events are told")
        eventually(lambda: jobs.get("PyTorchJob", "train") is None, "it goes when its time is up")
        jobs.wait_nothing_left()
        assert "lacks" not in process.output
        assert "may not" not in process.output


@pytest.mark.parametrize(
    ("right", "verb"), RIGHTS, ids=[f"{verb}-{right.resource}" for right, verb in RIGHTS]
)
def test_a_right_that_is_missing_is_named(
    cluster: Cluster, admin: client.ApiClient, namespace: Namespace, tmp_path: Path,
    right: Any, verb: str,
) -> None:  # fmt: skip
    config = _config_of(cluster, namespace.core, namespace.name, "operator", tmp_path)
    rules = [*rules_of(OF_JOBS), *rules_of(OF_LEASE)]
    for rule in rules:
        if rule["resources"] == [right.resource]:
            rule["verbs"] = [each for each in rule["verbs"] if each != verb]
    _grant(admin, namespace.name, "operator", [rule for rule in rules if rule["verbs"]])
    words = ("--namespace", namespace.name, "--lease-namespace", namespace.name)
    process = OperatorProcess(cluster, *words, kubeconfig=config)
    assert process.wait() == 1
    what = f"{right.resource}.{right.group}" if right.group else right.resource
    assert f"- {verb} {what} in namespace {namespace.name}" in process.output
    assert "lacks a right that the operator needs" in process.output
    assert f"system:serviceaccount:{namespace.name}:operator" in process.output


def test_one_command_grants_all_that_is_missing(
    cluster: Cluster, namespace: Namespace, jobs: Jobs, tmp_path: Path
) -> None:
    config = _config_of(cluster, namespace.core, namespace.name, "operator", tmp_path)
    words = ("--namespace", namespace.name, "--lease-namespace", namespace.name)
    process = OperatorProcess(cluster, *words, kubeconfig=config)
    assert process.wait() == 1
    named = [line.split()[-4] for line in process.lines if line.strip().startswith("- ")]
    assert len(named) == len(set(named)) == len((*OF_JOBS, *OF_LEASE)), process.output
    [command] = re.findall(r"windlass (operator rights .*) \| kubectl apply -f -", process.output)
    printed = subprocess.run(
        [BIN / "windlass", *command.split()], capture_output=True, text=True, check=True
    ).stdout
    for role in yaml.safe_load_all(printed):
        plural = f"{role['kind'].lower()}s"
        rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace.name}/{plural}"
        jobs.connection.request("POST", rbac, role)
    with operating(cluster, *words, kubeconfig=config) as granted:
        granted.wait_leading()


def test_what_is_taken_away_is_missed_once_until_it_is_given_back(
    cluster: Cluster, admin: client.ApiClient, namespace: Namespace, tmp_path: Path
) -> None:
    with Proxy(cluster) as proxy:
        through = replace(cluster, kubeconfig=proxy.kubeconfig(tmp_path))
        config = _config_of(through, namespace.core, namespace.name, "operator", tmp_path)
        _grant(admin, namespace.name, "operator", rules_of(OF_JOBS))
        words = ("--namespace", namespace.name, "--alone")
        with operating(cluster, *words, kubeconfig=config) as process:
            process.wait_leading()
            api = client.RbacAuthorizationV1Api(admin)
            rules = [each for each in rules_of(OF_JOBS) if each["resources"] != ["services"]]
            api.patch_namespaced_role("operator", namespace.name, {"rules": rules})
            for _ in range(3):
                eventually(lambda: proxy.cut() > 0, "it watches again")
            eventually(lambda: "may not" in process.output, "it is told")
            eventually(lambda: process.ask("/readyz")[0] == 503, "it does not see all")
            api.patch_namespaced_role("operator", namespace.name, {"rules": rules_of(OF_JOBS)})
            eventually(lambda: "all is seen again" in process.output, "it has it back")
            told = [each for each in process.lines if "may not" in each]
            assert len(told) == 1, process.output
