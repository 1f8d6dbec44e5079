"""The documented permissions are sufficient, and each missing one is named."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from kubernetes import client

from harness import PATIENCE, eventually, windlass
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.operator.operator_process import MERGE, SLEEP, Jobs, OperatorProcess, operating
from on_kubernetes.operator.simulated_pods import NOBODY
from on_kubernetes.pods import Namespace
from on_kubernetes.proxies import Proxy
from windlass.kube.api.connection import connect
from windlass.kube.api.resource_kinds import PODS, SERVICES
from windlass.kube.permissions.check import denied_permissions, missing_permissions
from windlass.kube.permissions.required import PermissionRule, role_rules
from windlass.operator.install_crds import definitions
from windlass.operator.permissions import HELPFUL, OF_DEFINITIONS, OF_JOBS, OF_LEASE

RIGHTS = [(right, verb) for right in (*OF_JOBS, *OF_LEASE) for verb in right.verbs]


def _config_of(cluster: Cluster, core: Any, namespace: str, account: str, folder: Path) -> str:
    """The kubeconfig of a service account without permissions."""
    core.create_namespaced_service_account(namespace, {"metadata": {"name": account}})
    wanted = {"spec": {"expirationSeconds": 3600}}
    token = core.create_namespaced_service_account_token(account, namespace, wanted).status.token
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
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


def _wait_granted(config: str, namespace: str, *rights: PermissionRule, lacking: int = 0) -> None:
    """Wait until the API server applies a grant, because an operator asks only once."""
    connection = connect(config_file=config)
    eventually(
        lambda: len(missing_permissions(connection, namespace, rights)) == lacking, "it is known"
    )
    connection.close()


def test_the_documented_permissions_are_sufficient_and_each_is_used(
    cluster: Cluster, admin: client.ApiClient, namespace: Namespace, jobs: Jobs, tmp_path: Path
) -> None:
    config = _config_of(cluster, namespace.core, namespace.name, "operator", tmp_path)
    documented = (*OF_JOBS, *HELPFUL, *OF_LEASE)
    _grant(admin, namespace.name, "operator", role_rules(documented))
    _wait_granted(config, namespace.name, *documented)
    words = ("--namespace", namespace.name, "--lease-namespace", namespace.name)
    notes = tmp_path / "notes"
    with operating(cluster, *words, kubeconfig=config, rig=f"note:{notes}") as process:
        process.wait_leading()
        with ThreadPoolExecutor() as both:
            list(both.map(partial(_have_everything_done, jobs, namespace), ("TFJob", "PyTorchJob")))
        complaints = ("lacks", "may not", "Traceback")
        assert not [word for word in complaints if word in process.output], process.output
    used = set(notes.read_text().splitlines())
    # Blocking an owner's deletion is not a request, but some clusters require that permission.
    needed = {
        f"{verb} {right.resource}"
        for right in documented
        for verb in right.verbs
        if not right.resource.endswith("/finalizers")
    }
    checks = {"get namespaces"} | {f"create selfsubject{review}reviews" for review in _REVIEWS}
    assert used - checks == needed


_REVIEWS = ("rules", "access")


def _have_everything_done(jobs: Jobs, namespace: Namespace, kind: str) -> None:
    """Create jobs that make an operator use all its features."""
    names = [f"{kind.lower()}-{suffix}" for suffix in ("fallen", "robbed", "blocked", "stuck")]
    fallen, robbed, blocked, stuck = names
    # A job that restarts, and is deleted after its time to live.
    die = "import os, sys; sys.exit(137 if os.environ['WINDLASS_ATTEMPT'] == '1' else 0)"
    policy = {"ttlSecondsAfterFinished": 1, "cleanPodPolicy": "All"}
    role = jobs.role(1, die, restartPolicy="ExitCode")
    jobs.create(kind, fallen, spec={"runPolicy": policy}, Master=role)
    # A job that lacks a secret that it mounts.
    create_stuck(jobs, kind, stuck)
    # Foreign objects with the names of its own are read, and left alone.
    namespace.pod(f"{blocked}-worker-0", "true", schedulerName=NOBODY)
    service = {"metadata": {"name": f"{blocked}-worker-1"}, "spec": {"ports": [{"port": 80}]}}
    jobs.connection.request("POST", SERVICES.path(jobs.namespace), service)
    jobs.create(kind, blocked, Worker=jobs.role(2, "pass"))
    # A lost pod is adopted.
    made = jobs.create(kind, robbed, Worker=jobs.role(1, SLEEP))
    jobs.wait(kind, robbed, "Running")
    for resource in (PODS, SERVICES):
        path = resource.path(jobs.namespace, f"{robbed}-worker-0")
        orphan = {"metadata": {"ownerReferences": None}}
        jobs.connection.request("PATCH", path, orphan, content_type=MERGE)
        jobs.wait_event(robbed, f"Adopted{resource.name}: ")
        [owner] = jobs.connection.request("GET", path)["metadata"]["ownerReferences"]
        assert owner["uid"] == made["metadata"]["uid"]
    for resource, index in ((PODS, 0), (SERVICES, 1)):
        name = f"{blocked}-worker-{index}"
        jobs.wait_event(blocked, f"the {resource.name.lower()} {name} in namespace")
        jobs.connection.request("DELETE", resource.path(jobs.namespace, name), {})
    assert jobs.ended(kind, blocked)["type"] == "Succeeded"
    jobs.wait_event(stuck, f"There is no secret nothing in namespace {jobs.namespace}.")
    jobs.wait_event(fallen, "Completed: ")
    eventually(lambda: jobs.get(kind, fallen) is None, "it goes when its time is up")


def create_stuck(jobs: Jobs, kind: str, name: str) -> None:
    """A job whose pod lacks a secret that it mounts."""
    pod = {"volumes": [{"name": "data", "secret": {"secretName": "nothing"}}]}
    container = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    jobs.create(kind, name, Master=jobs.role(1, "pass", pod=pod, container=container))


def test_the_operator_works_without_the_permission_to_read_events(
    cluster: Cluster, admin: client.ApiClient, namespace: Namespace, jobs: Jobs, tmp_path: Path
) -> None:
    config = _config_of(cluster, namespace.core, namespace.name, "operator", tmp_path)
    _grant(admin, namespace.name, "operator", role_rules(OF_JOBS))
    _wait_granted(config, namespace.name, *OF_JOBS)
    words = ("--namespace", namespace.name, "--alone")
    with operating(cluster, *words, kubeconfig=config) as process:
        process.wait_leading()
        message = (
            f"The operator may not list events in namespace {namespace.name}, and continues without"
        )
        assert message in process.output
        create_stuck(jobs, "PyTorchJob", "train")
        untold = "the reasons why pods do not start cannot be read"
        eventually(lambda: untold in process.output, "it is reported once")
        secrets = f"/api/v1/namespaces/{jobs.namespace}/secrets"
        jobs.connection.request("POST", secrets, {"metadata": {"name": "nothing"}})
        end = jobs.wait("PyTorchJob", "train", "Succeeded", "Failed", patience=2 * PATIENCE)
        assert end["type"] == "Succeeded"
        assert process.output.count(untold) == 1


def test_a_permission_revoked_later_is_reported_on_the_job(
    cluster: Cluster, admin: client.ApiClient, namespace: Namespace, jobs: Jobs, tmp_path: Path
) -> None:
    config = _config_of(cluster, namespace.core, namespace.name, "operator", tmp_path)
    _grant(admin, namespace.name, "operator", role_rules(OF_JOBS))
    _wait_granted(config, namespace.name, *OF_JOBS)
    roles = client.RbacAuthorizationV1Api(admin)
    fewer = [
        {**rule, "verbs": [verb for verb in rule["verbs"] if verb != "delete"]}
        if rule["resources"] == ["pods"]
        else rule
        for rule in role_rules(OF_JOBS)
    ]
    words = ("--namespace", namespace.name, "--alone")
    with operating(cluster, *words, kubeconfig=config):
        jobs.create("TFJob", "train", Worker=jobs.role(1, SLEEP))
        jobs.wait("TFJob", "train", "Running")
        roles.patch_namespaced_role("operator", namespace.name, {"rules": fewer})
        _wait_granted(config, namespace.name, *OF_JOBS, lacking=1)
        jobs.patch("TFJob", "train", {"spec": {"runPolicy": {"suspend": True}}})
        may_not = f"operator may not delete pods in namespace {namespace.name}"
        jobs.wait_event("train", "DeleteFailed: ", "stopping worker-0", may_not)
        assert list(jobs.pods()) == ["train-worker-0"]
        roles.patch_namespaced_role("operator", namespace.name, {"rules": role_rules(OF_JOBS)})
        jobs.wait_nothing_left()
        jobs.wait("TFJob", "train", "Suspended")


@pytest.mark.parametrize(
    ("right", "verb"), RIGHTS, ids=[f"{verb}-{right.resource}" for right, verb in RIGHTS]
)
@pytest.mark.thorough
def test_a_missing_permission_is_named(
    cluster: Cluster, admin: client.ApiClient, namespace: Namespace, tmp_path: Path,
    right: Any, verb: str,
) -> None:  # fmt: skip
    config = _config_of(cluster, namespace.core, namespace.name, "operator", tmp_path)
    rules = [*role_rules(OF_JOBS), *role_rules(OF_LEASE)]
    for rule in rules:
        if rule["resources"] == [right.resource]:
            rule["verbs"] = [other_verb for other_verb in rule["verbs"] if other_verb != verb]
    _grant(admin, namespace.name, "operator", [rule for rule in rules if rule["verbs"]])
    _wait_granted(config, namespace.name, *OF_JOBS, *OF_LEASE, lacking=1)
    words = ("--namespace", namespace.name, "--lease-namespace", namespace.name)
    process = OperatorProcess(cluster, *words, kubeconfig=config)
    assert process.wait() == 1
    what = f"{right.resource}.{right.group}" if right.group else right.resource
    assert f"- {verb} {what} in namespace {namespace.name}" in process.output
    assert "lacks a right that the operator needs" in process.output
    assert f"system:serviceaccount:{namespace.name}:operator" in process.output


def test_one_command_grants_all_missing_permissions(
    cluster: Cluster, namespace: Namespace, jobs: Jobs, tmp_path: Path
) -> None:
    config = _config_of(cluster, namespace.core, namespace.name, "operator", tmp_path)
    words = ("--namespace", namespace.name, "--lease-namespace", namespace.name)
    process = OperatorProcess(cluster, *words, kubeconfig=config)
    assert process.wait() == 1
    named = [line.split()[-4] for line in process.lines if line.strip().startswith("- ")]
    assert len(named) == len(set(named)) == len((*OF_JOBS, *OF_LEASE)), process.output
    [command] = re.findall(r"windlass (operator rights .*) \| kubectl apply -f -", process.output)
    for role in yaml.safe_load_all(windlass(*command.split()).stdout):
        plural = f"{role['kind'].lower()}s"
        rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace.name}/{plural}"
        jobs.connection.request("POST", rbac, role)
    _wait_granted(config, namespace.name, *OF_JOBS, *OF_LEASE)
    with operating(cluster, *words, kubeconfig=config) as granted:
        granted.wait_leading()


@pytest.fixture
def of_the_cluster(
    admin: client.ApiClient, namespace: Namespace
) -> Iterator[Callable[[list[Any]], None]]:
    """Replaces the cluster-wide permissions of the account `operator`."""
    api, name = client.RbacAuthorizationV1Api(admin), f"tests-{namespace.name}"
    api.create_cluster_role({"metadata": {"name": name}, "rules": []})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": namespace.name}],
    }
    api.create_cluster_role_binding(binding)
    yield lambda rules: api.patch_cluster_role(name, {"rules": rules})
    api.delete_cluster_role_binding(name)
    api.delete_cluster_role(name)


def _install(config: str) -> subprocess.CompletedProcess[str]:
    return windlass("operator", "install", env={"KUBECONFIG": config})


@pytest.mark.usefixtures("jobs")  # the definitions exist, and are Windlass's
def test_the_install_command_reports_all_missing_permissions_at_once(
    cluster: Cluster, namespace: Namespace, tmp_path: Path,
    of_the_cluster: Callable[[list[Any]], None],
) -> None:  # fmt: skip
    config = _config_of(cluster, namespace.core, namespace.name, "operator", tmp_path)
    connection = connect(config_file=config)
    account = f"system:serviceaccount:{namespace.name}:operator"
    kind = "customresourcedefinitions.apiextensions.k8s.io"

    refused = _install(config)
    assert refused.returncode == 1
    message = "lacks 3 rights of the whole cluster that installing needs: get, create, update"
    assert f"{account} {message} {kind}." in refused.stderr
    assert "for you: windlass operator install\n" in refused.stderr
    assert f"--verb=get,create,update --resource={kind}; kubectl" in refused.stderr
    assert f"--clusterrole=windlass-definitions --user={account}" in refused.stderr

    [rule] = role_rules([OF_DEFINITIONS])
    of_the_cluster([{**rule, "verbs": ["get"]}])
    get, _, update = OF_DEFINITIONS.permissions("")
    eventually(lambda: not denied_permissions(connection, [get]), "it may look")
    assert f"lacks a right of the whole cluster that installing needs: update {kind}" in (
        _install(config).stderr
    )

    names = [str(definition["metadata"]["name"]) for definition in definitions()]
    of_the_cluster([{**rule, "verbs": ["get", "update"], "resourceNames": names}])
    by_name = msgspec.structs.replace(update, name=names[0])
    eventually(lambda: not denied_permissions(connection, [by_name]), "it may change these")
    assert _install(config).stdout == "".join(f"{name}: unchanged\n" for name in names), (
        "none is to be made: that right is not missed"
    )


@pytest.mark.thorough
def test_a_revoked_permission_is_reported_once_until_it_is_granted_again(
    cluster: Cluster, admin: client.ApiClient, namespace: Namespace, tmp_path: Path
) -> None:
    with Proxy(cluster) as proxy:
        through = replace(cluster, kubeconfig=proxy.kubeconfig(tmp_path))
        config = _config_of(through, namespace.core, namespace.name, "operator", tmp_path)
        _grant(admin, namespace.name, "operator", role_rules(OF_JOBS))
        _wait_granted(config, namespace.name, *OF_JOBS)
        words = ("--namespace", namespace.name, "--alone")
        with operating(cluster, *words, kubeconfig=config) as process:
            process.wait_leading()
            api = client.RbacAuthorizationV1Api(admin)
            rules = [rule for rule in role_rules(OF_JOBS) if rule["resources"] != ["services"]]
            api.patch_namespaced_role("operator", namespace.name, {"rules": rules})
            for _ in range(3):
                eventually(lambda: proxy.cut() > 0, "it watches again")
            missed = "may not watch services"
            eventually(lambda: missed in process.output, "it is reported")
            eventually(lambda: process.ask("/readyz")[0] == 503, "it does not see all")
            api.patch_namespaced_role("operator", namespace.name, {"rules": role_rules(OF_JOBS)})
            eventually(lambda: "all watches work again" in process.output, "it has it back")
            lines = [line for line in process.lines if missed in line]
            assert len(lines) == 1, process.output
