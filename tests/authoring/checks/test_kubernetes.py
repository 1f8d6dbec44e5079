"""Options of a cluster become part of the job, and invalid options are reported at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from harness import Project
from windlass.authoring.prepare.job_spec import build_outline
from windlass.authoring.prepare.options import Options
from windlass.authoring.public.job_file import read_job
from windlass.model.kubernetes.job_options import KubernetesOptions, Toleration

SCRIPT = wl.Command(["true"])


def test_an_executor_of_a_cluster_becomes_part_of_each_role() -> None:
    executor = wl.Kubernetes(
        namespace="lab", cpus=2, memory="4GiB", accelerator="a100x2", container_image="lab/train:7",
        node_selector={"zone": "a"}, tolerations=[{"key": "gpu", "operator": "Exists"}],
        service_account="train", queue="team", priority_class="high",
        volumes={"/data": "claim:datasets"}, image_pull_secrets=["registry"],
        pod_patch={"hostNetwork": True},
    )  # fmt: skip
    spec = build_outline(
        wl.JobGroup(chief=wl.Job(SCRIPT, executor=executor), worker=wl.Job(SCRIPT))
    )
    assert (spec.backend, spec.volumes) == ("kubernetes", ())
    chief, worker = spec.roles
    assert str(chief.resources) == "2 CPUs, 4.3 GB, a100x2"
    assert chief.kubernetes == KubernetesOptions(
        namespace="lab", container_image="lab/train:7", node_selector={"zone": "a"},
        tolerations=(Toleration(key="gpu", operator="Exists"),), service_account="train",
        queue="team", priority_class="high", volumes={"/data": "claim:datasets"},
        image_pull_secrets=("registry",), pod_patch={"hostNetwork": True},
    )  # fmt: skip
    assert worker.kubernetes == KubernetesOptions(
        namespace="lab"
    )  # same backend as the other roles


def test_every_role_sees_the_volumes_of_the_whole_job() -> None:
    job = wl.Job(
        SCRIPT,
        volumes={"/data": "claim:datasets"},
        executor=wl.Kubernetes(volumes={"/models": "claim:models:ro"}),
    )
    [role] = build_outline(job).roles
    assert role.kubernetes is not None
    assert role.kubernetes.volumes == {"/data": "claim:datasets", "/models": "claim:models:ro"}


def test_a_volume_of_a_role_overrides_one_at_the_same_path() -> None:
    job = wl.Job(
        SCRIPT,
        volumes={"/data/": "claim:datasets", "//models": "claim:models"},
        executor=wl.Kubernetes(volumes={"/data": "claim:own"}),
    )
    [role] = build_outline(job).roles
    assert role.kubernetes is not None
    assert role.kubernetes.volumes == {"/data": "claim:own", "/models": "claim:models"}


def test_a_function_goes_to_a_cluster_by_its_backend() -> None:
    options = Options(
        backend="kubernetes", accelerator="a100x2", container_image="x", volumes={"/d": "config:c"}
    ).check("@wl.run")
    spec = options.outline()
    assert spec.backend == "kubernetes" and spec.volumes == ()
    assert spec.roles[0].kubernetes == KubernetesOptions(
        container_image="x", volumes={"/d": "config:c"}
    )
    job = options.job(len)
    assert isinstance(job.executor, wl.Kubernetes) and job.executor.accelerator == "a100x2"


def test_a_job_file_names_its_cluster(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text(
        'command = ["true"]\n[executor]\nbackend = "kubernetes"\nnamespace = "lab"\ncpus = 2\n'
        'tolerations = [{ key = "gpu", operator = "Exists" }]\nvolumes = { "/d" = "claim:d" }\n'
    )
    [role] = build_outline(read_job(file)).roles
    assert role.kubernetes == KubernetesOptions(
        namespace="lab",
        tolerations=(Toleration(key="gpu", operator="Exists"),),
        volumes={"/d": "claim:d"},
    )


def test_a_job_file_names_the_backend_of_a_key(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text('command = ["true"]\n[executor]\nnamespace = "lab"\n')
    with pytest.raises(wl.InvalidArgument, match='write backend = "kubernetes" beside it'):
        read_job(file)
    file.write_text('command = ["true"]\n[executor]\nbackend = "nomad"\n')
    with pytest.raises(wl.InvalidArgument, match="there is no 'nomad'; write 'local' or 'kuber"):
        read_job(file)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"namespace": "My Lab"}, "namespace: 'My Lab' is not a valid Kubernetes name"),
        ({"service_account": ""}, "service_account: '' is not a valid Kubernetes name"),
        ({"node_selector": ["a"]}, "node_selector: write a mapping"),
        ({"node_selector": {"ssd": True}}, "node_selector: True is not a string; write 'true'"),
        ({"tolerations": {"key": "gpu"}}, "tolerations: write a list of mappings"),
        ({"tolerations": [{"kye": "gpu"}]}, "there is no field 'kye'; did you mean 'key'?"),
        (
            {"tolerations": [{"operator": "Maybe"}]},
            "tolerations: {'operator': 'Maybe'} is not a toleration",
        ),
        ({"volumes": {"data": "claim:d"}}, "'data' is not an absolute path"),
        ({"volumes": {"/data": "/home/ada"}}, "'/home/ada' is not a volume source"),
        ({"volumes": {"/windlass": "claim:d"}}, "'/windlass' is reserved for Windlass"),
        ({"volumes": {"//windlass": "claim:d"}}, "'//windlass' is reserved for Windlass"),
        (
            {"volumes": {"/data": "claim:a", "/data/": "claim:b"}},
            "volumes: '/data' and '/data/' are the same path; mount it once",
        ),
        ({"volumes": {"/data": 7}}, "volumes: 7 is not a string"),
        ({"image_pull_secrets": "registry"}, "image_pull_secrets=['registry']"),
        ({"pod_patch": [1]}, "pod_patch: [1] is not a mapping"),
        ({"pod_patch": {"x": object}}, "pod_patch: it contains a value that JSON cannot hold"),
        ({"pod_patch": {"spec": "x"}}, "pod_patch: spec: 'x' is not a mapping"),
        (
            {"pod_patch": {"containers": [{"name": ["x"]}]}},
            "pod_patch: spec.containers[0].name: ['x'] is not a string",
        ),
        ({"container_image": 3}, "container_image: 3 is not a string"),
    ],
    ids=lambda parameter: next(iter(parameter)) if isinstance(parameter, dict) else "",
)
def test_an_invalid_cluster_option_is_reported(options: dict[str, Any], message: str) -> None:
    with pytest.raises(wl.InvalidArgument) as caught:
        wl.Job(SCRIPT, executor=wl.Kubernetes(**options)).submit()
    assert message in str(caught.value) and "executor: " in str(caught.value)


def test_all_roles_of_a_job_run_on_one_backend_and_namespace() -> None:
    with pytest.raises(wl.InvalidArgument, match="need the same executor; these differ: a on"):
        wl.JobGroup(
            a=wl.Job(SCRIPT, executor=wl.Local()), b=wl.Job(SCRIPT, executor=wl.Kubernetes())
        )
    with pytest.raises(wl.InvalidArgument, match="the same namespace; these differ: x, y"):
        wl.JobGroup(
            a=wl.Job(SCRIPT, executor=wl.Kubernetes(namespace="x")),
            b=wl.Job(SCRIPT, executor=wl.Kubernetes(namespace="y")),
        )


def test_a_dry_run_shows_the_cluster_and_the_namespace(
    project: Project, monkeypatch: pytest.MonkeyPatch, fresh_home: Path, capsys: Any
) -> None:
    monkeypatch.chdir(project.path)
    job = wl.Job(SCRIPT, executor=wl.Kubernetes(namespace="lab", volumes={"/d": "claim:d"}))
    job.submit(dry_run=True)
    shown = capsys.readouterr().out
    for word in ("kubernetes", "lab", "one with its Python", "/d=claim:d", "the cluster checks"):
        assert word in shown
