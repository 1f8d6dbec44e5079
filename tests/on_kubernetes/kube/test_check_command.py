"""`windlass kubernetes check` and `doctor` query the server that runs the jobs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import harness
from harness import eventually, stop_server
from on_kubernetes.accounts import Accounts, admin_connection
from on_kubernetes.both_backends.backends import kubeconfig_for
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.pods import Namespace
from on_kubernetes.proxies import Proxy
from windlass.kube.api.connection import connect
from windlass.kube.api.resource_kinds import PODS, SERVICES
from windlass.kube.permissions.check import missing_permissions
from windlass.kube.permissions.required import RUNNING, role_rules
from windlass.runtimes.kubernetes.objects.api_objects import SECRETS


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine without a cluster, with its own home."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "WINDLASS_SERVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "windlass"
    monkeypatch.setenv("WINDLASS_HOME", str(path))
    yield path
    stop_server(path)


def windlass(*words: str, config: Path | None = None) -> subprocess.CompletedProcess[str]:
    return harness.windlass(*words, env={"KUBECONFIG": str(config)} if config else {})


def findings(*words: str, config: Path | None = None) -> dict[str, dict[str, str]]:
    """The last finding of each check."""
    reported = json.loads(windlass(*words, "--json", config=config).stdout)
    return {finding["check"]: finding for finding in reported}


def test_a_running_server_is_checked_and_a_shell_with_another_cluster_is_reported(
    cluster: Cluster, namespace: Namespace, home: Path, tmp_path: Path
) -> None:
    meant = kubeconfig_for(cluster, namespace.name, tmp_path)
    by_check = findings("kubernetes", "check", config=meant)
    assert "asked" not in by_check, "none runs: this shell's own is what a server would have"
    assert by_check["namespace"]["text"] == namespace.name

    assert windlass("server", "start", config=meant).returncode == 0
    by_check = findings("kubernetes", "check", config=meant)
    assert "asked" in by_check and "this shell" not in by_check, by_check
    assert by_check["namespace"]["text"] == namespace.name

    other = findings("kubernetes", "check", config=cluster.kubeconfig)
    assert other["namespace"]["text"] == namespace.name, "that is where jobs go"
    assert other["this shell"]["level"] == "warning"
    assert (
        f"Jobs run on the cluster of the server: {by_check['cluster']['text'].split()[0]}"
        in (other["this shell"]["text"])
    )
    assert "windlass server stop" in other["this shell"]["remedy"]
    without = findings("kubernetes", "check")  # this shell has no cluster, and the server has one
    assert without["namespace"]["text"] == namespace.name and "this shell" not in without

    [context] = yaml.safe_load(cluster.kubeconfig.read_text())["contexts"]
    chosen = ("kubernetes", "check", "--context", context["name"])
    own = findings(*chosen, config=cluster.kubeconfig)
    assert "asked" not in own and own["namespace"]["text"] != namespace.name


def test_a_job_runs_in_the_cluster_that_the_check_names(
    cluster: Cluster, namespace: Namespace, home: Path, tmp_path: Path
) -> None:
    nowhere = tmp_path / "nowhere"
    assert windlass("server", "start", config=nowhere).returncode == 0
    done = windlass("kubernetes", "check", config=cluster.kubeconfig)
    assert done.returncode == 1
    assert f"There is no kubeconfig file '{nowhere}'" in done.stdout
    assert "Jobs run on the cluster of the server: no cluster" in done.stdout
    run = windlass("run", "--backend", "kubernetes", "true", config=cluster.kubeconfig)
    assert run.returncode != 0
    assert f"There is no kubeconfig file '{nowhere}'" in run.stderr
    assert windlass("server", "stop").returncode == 0
    assert windlass("kubernetes", "check", config=cluster.kubeconfig).returncode == 0


def test_one_command_grants_all_missing_permissions(
    cluster: Cluster, namespace: Namespace, home: Path, tmp_path: Path
) -> None:
    connection = admin_connection(cluster.kubeconfig, namespace.name)
    accounts = Accounts(connection)
    left_out = (["pods/portforward"], ["events"])
    rules = [rule for rule in role_rules(RUNNING) if rule["resources"] not in left_out]
    accounts.make("few", rules)
    settings = yaml.safe_load(cluster.kubeconfig.read_text())
    settings["users"][0]["user"] = {"token": accounts.token("few")}
    settings["contexts"][0]["context"]["namespace"] = namespace.name
    config = tmp_path / "few"
    config.write_text(yaml.safe_dump(settings))
    few = connect(config_file=str(config))
    eventually(lambda: len(missing_permissions(few, namespace.name)) == 3, "the role is in force")

    reported = json.loads(windlass("kubernetes", "check", "--json", config=config).stdout)
    wrong = [
        finding
        for finding in reported
        if finding["check"] == "right" and finding["level"] == "error"
    ]
    assert len(wrong) == 2
    assert [finding["remedy"] for finding in wrong] == [""] * 2
    [rights] = [finding for finding in reported if finding["check"] == "rights"]
    assert rights["text"] == "3 rights are missing"
    assert rights["remedy"].count("windlass kubernetes rights") == 1
    command = rights["remedy"].partition(": ")[2].partition(" | ")[0]
    for manifest in yaml.safe_load_all(windlass(*command.split()[1:], config=config).stdout):
        plural = {"Role": "roles", "RoleBinding": "rolebindings"}[manifest["kind"]]
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace.name}/{plural}"
        connection.request("POST", path, manifest)
    eventually(lambda: not missing_permissions(few, namespace.name), "it is in force")
    assert windlass("kubernetes", "check", config=config).returncode == 0


@pytest.mark.thorough
def test_the_doctor_reports_a_known_cluster_in_one_line_and_no_other(
    cluster: Cluster, namespace: Namespace, home: Path, tmp_path: Path
) -> None:
    assert "kubernetes" not in findings("doctor")
    config = kubeconfig_for(cluster, namespace.name, tmp_path)

    def is_well() -> bool:
        # A busy cluster may take longer than the short timeout.
        finding = findings("doctor", config=config)["kubernetes"]
        return finding["level"] == "ok" and f"namespace {namespace.name}" in finding["text"]

    eventually(is_well, "the doctor says that jobs may run there")
    assert windlass("server", "start", config=config).returncode == 0
    eventually(
        lambda: "kubernetes" in findings("doctor"),
        "the server's cluster is reported without one here",
    )


@pytest.mark.thorough
def test_the_doctor_does_not_wait_for_an_unreachable_cluster(
    proxy: Proxy, home: Path, tmp_path: Path
) -> None:
    config = proxy.kubeconfig(tmp_path)
    proxy.shut()
    assert windlass("doctor", config=config).returncode == 0, "only jobs there mind"
    finding = findings("doctor", config=config)["kubernetes"]
    assert finding["level"] == "warning"
    assert "https://127.0.0.1:" in finding["text"] and str(config) in finding["text"]
    assert "Details: windlass kubernetes check" in finding["remedy"]


def test_permissions_are_printed_for_the_account_and_namespace_of_the_jobs(
    cluster: Cluster, namespace: Namespace, home: Path, tmp_path: Path
) -> None:
    accounts = Accounts(admin_connection(cluster.kubeconfig, namespace.name))
    trainer = accounts.make("trainer", [])
    settings = yaml.safe_load(kubeconfig_for(cluster, namespace.name, tmp_path).read_text())
    settings["users"][0]["user"] = {"token": accounts.token("trainer")}
    config = tmp_path / "trainer"
    config.write_text(yaml.safe_dump(settings))
    subject = {"kind": "ServiceAccount", "namespace": namespace.name, "name": "trainer"}

    alone = windlass("kubernetes", "rights", config=config)
    assert alone.stderr == "", "a server would be started by this shell"
    assert windlass("server", "start", config=config).returncode == 0
    same = windlass("kubernetes", "rights", config=config)
    assert same.stderr == ""
    other = windlass("kubernetes", "rights", config=cluster.kubeconfig)
    assert "Warning: this shell uses another cluster: " in other.stderr
    assert "windlass server stop" in other.stderr
    for done in (alone, same, other):
        role, binding = yaml.safe_load_all(done.stdout)
        assert role["metadata"]["namespace"] == namespace.name
        assert binding["subjects"] == [subject], trainer

    [context] = yaml.safe_load(cluster.kubeconfig.read_text())["contexts"]
    chosen = ("kubernetes", "rights", "--context", context["name"])
    own = windlass(*chosen, config=cluster.kubeconfig)
    assert own.stderr == ""
    role, binding = yaml.safe_load_all(own.stdout)
    assert role["metadata"]["namespace"] != namespace.name
    assert binding["subjects"] != [subject]


@pytest.mark.thorough
def test_a_failed_query_of_the_own_account_is_explained(
    proxy: Proxy, home: Path, tmp_path: Path
) -> None:
    config = proxy.kubeconfig(tmp_path)
    proxy.shut()
    done = windlass("kubernetes", "rights", config=config)
    assert done.returncode == 1 and done.stdout == ""
    assert "cannot be reached" in done.stderr
    done = windlass("kubernetes", "rights", "--account", "ada", config=config)
    assert done.returncode == 0, "that is known without it"


def test_a_manifest_equals_the_objects_of_the_server(
    cluster: Cluster, namespace: Namespace, home: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    job = tmp_path / "job.toml"
    job.write_text('command = ["true"]\nexecutor = { backend = "kubernetes" }\n')
    meant = kubeconfig_for(cluster, namespace.name, tmp_path)
    monkeypatch.setenv("WINDLASS_KUBERNETES_IMAGE", "lab/preset:1")
    assert windlass("server", "start", config=meant).returncode == 0
    monkeypatch.delenv("WINDLASS_KUBERNETES_IMAGE")
    same = windlass("kubernetes", "manifest", str(job), config=meant)
    other = windlass("kubernetes", "manifest", str(job), config=cluster.kubeconfig)
    assert same.stderr == "" and "Warning: this shell uses another cluster: " in other.stderr
    for done in (same, other):
        secret, pod = yaml.safe_load_all(done.stdout)
        assert {manifest["metadata"]["namespace"] for manifest in (secret, pod)} == {namespace.name}
        assert pod["spec"]["containers"][0]["image"] == "lab/preset:1"
        assert secret["data"] == {"worker.zip": "...", "agent.json": "..."}

    assert windlass("server", "stop").returncode == 0
    own = windlass("kubernetes", "manifest", str(job), config=cluster.kubeconfig)
    assert own.stderr == "", "a server would be started by this shell"
    _, pod = yaml.safe_load_all(own.stdout)
    assert pod["metadata"]["namespace"] != namespace.name
    assert pod["spec"]["containers"][0]["image"].startswith("python:")


def test_a_manifest_equals_the_created_objects(
    cluster: Cluster, namespace: Namespace, home: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    job = tmp_path / "job.toml"
    job.write_text(
        'command = ["sleep", "999"]\nreplicas = 2\n'
        'executor = { backend = "kubernetes", cpus = 0.05, memory = "64MiB" }\n'
    )
    config = kubeconfig_for(cluster, namespace.name, tmp_path)
    monkeypatch.setenv("WINDLASS_KUBERNETES_IMAGE", cluster.image)
    output = windlass("kubernetes", "manifest", str(job), config=config).stdout
    trial = json.loads(windlass("run", "-d", "--json", "-f", str(job), config=config).stdout)
    connection = admin_connection(cluster.kubeconfig, namespace.name)
    kinds = {"Secret": SECRETS, "Service": SERVICES, "Pod": PODS}

    def there() -> dict[tuple[str, str], Any]:
        ours = {"labelSelector": f"windlass.dev/uid={trial['uid']}"}
        return {
            (name, item["metadata"]["name"]): item
            for name, kind in kinds.items()
            for item in connection.request("GET", kind.path(namespace.name), query=ours)["items"]
        }

    eventually(lambda: len(there()) == len(list(yaml.safe_load_all(output))), "all was made")
    made = there()
    [secret] = [manifest["metadata"] for (kind, _), manifest in made.items() if kind == "Secret"]
    # Values that a manifest cannot have before there is a trial.
    for unknown, replacement in (
        ("wl-0-00000000", secret["name"]),
        ("'00000000000000000000000000000000'", trial["uid"]),
        ("00000000-0000-0000-0000-000000000000", secret["uid"]),
        ("windlass.dev/trial: '0'", f"windlass.dev/trial: '{trial['id']}'"),
        ("windlass.dev/home: '0'", f"windlass.dev/home: {secret['labels']['windlass.dev/home']}"),
    ):
        assert unknown in output
        output = output.replace(unknown, replacement)
    for wanted in yaml.safe_load_all(output):
        created = made[wanted.pop("kind"), wanted["metadata"]["name"]]
        del wanted["apiVersion"]
        if "data" in wanted:
            assert wanted.pop("data").keys() == created["data"].keys()
        assert _lacks(wanted, created) == []
    assert windlass("stop", "--grace", "0s", str(trial["id"])).returncode == 0
    eventually(lambda: not there(), "all of it is gone")


def _lacks(wanted: Any, actual: Any, path: str = "") -> list[str]:
    """The paths at which an object differs from the expected one. The cluster may add fields."""
    if isinstance(wanted, dict) and isinstance(actual, dict):
        parts = [(key, value, actual.get(key)) for key, value in wanted.items()]
    elif isinstance(wanted, list) and isinstance(actual, list):
        parts = list(
            zip(range(len(wanted)), wanted, [*actual, *[None] * len(wanted)], strict=False)
        )
    else:
        is_same = str(wanted) == str(actual)
        return [] if is_same else [f"{path}: {wanted!r}, and there is {actual!r}"]
    return [lack for key, *both in parts for lack in _lacks(*both, f"{path}.{key}")]
