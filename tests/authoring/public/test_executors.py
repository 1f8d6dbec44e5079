"""Executors are values, and unavailable backends are refused before anything else happens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from harness import Project
from windlass.authoring.prepare.options import Options
from windlass.model.kubernetes.job_options import KubernetesOptions

ELSEWHERE = [
    wl.Kubernetes(
        namespace="research", accelerator="a100x8", cpus=4, memory="16GB",
        container_image="lab/train:7", node_selector={"zone": "a"},
        tolerations=[{"key": "gpu", "operator": "Exists"}], service_account="train",
        queue="team", priority_class="high", volumes={"/data": "claim:data"},
        image_pull_secrets=["registry"], pod_patch={"hostNetwork": True},
    ),
    wl.Ray(cluster="ray://head:10001", cpus=2, memory="4GB", accelerator="a100"),
]  # fmt: skip


@pytest.fixture
def here(project: Project, monkeypatch: pytest.MonkeyPatch, fresh_home: Path) -> Path:
    """A home without a server, and a project as the working directory."""
    project.write("train.py", "print('ran')")
    monkeypatch.chdir(project.path)
    return fresh_home


@pytest.mark.parametrize("executor", ELSEWHERE, ids=lambda executor: type(executor).__name__)
def test_an_executor_is_a_plain_value(executor: Any) -> None:
    kind = type(executor)
    fields = vars(executor)
    assert kind(**fields) == executor != kind()
    assert f"{kind.__name__}(" in repr(executor)
    with pytest.raises(AttributeError):
        executor.cpus = 3
    with pytest.raises(wl.InvalidArgument, match=f"wl.{kind.__name__}: there is no option 'cpu'"):
        kind(cpu=3)


@pytest.mark.parametrize("executor", ELSEWHERE[1:], ids=lambda executor: type(executor).__name__)
def test_an_unavailable_backend_is_refused_first(here: Path, executor: Any) -> None:
    kind = type(executor).__name__
    script = wl.PythonScript("train.py")
    alone = wl.Job(script, executor=executor)
    group = wl.JobGroup(chief=wl.Job(script), worker=wl.Job(script, executor=executor))
    for job, where in ((alone, "wl.Job: "), (group, "wl.JobGroup: worker: ")):
        for start in (job.submit, job.run):
            with pytest.raises(wl.Unsupported) as caught:
                start()
            message = f"{where}executor: Windlass does not run jobs on wl.{kind} yet"
            assert caught.value.message == message
            assert "executor=wl.Local(" in (caught.value.hint or "")
    assert not here.exists()  # no server was started, and no file was written


def test_a_container_is_refused_on_backends_without_containers(here: Path) -> None:
    image = wl.Container("python:3.11", command=["python", "-V"])
    for job in (wl.Job(image), wl.Job(image, executor=wl.Local(cpus=1))):
        with pytest.raises(wl.Unsupported, match="runs plain processes, not containers") as caught:
            job.submit()
        assert "wl.PythonScript, wl.PythonModule or wl.Command" in (caught.value.hint or "")
    with pytest.raises(wl.Unsupported, match="a container image cannot be packaged"):
        wl.package([image])
    assert not here.exists()


def test_invalid_options_are_reported_before_unavailable_backends(here: Path) -> None:
    with pytest.raises(wl.InvalidArgument, match="executor: cpus: -1 is out of range"):
        wl.Job(wl.PythonScript("train.py"), executor=wl.Kubernetes(cpus=-1)).submit()
    for image, command, flaw in (
        ("", None, "'' is not a valid image name"),
        ("x", "ls -l", "command: 'ls -l' is not a list of words"),
        ("x", [1], "command: 1 is not a word"),
    ):
        with pytest.raises(wl.InvalidArgument, match=flaw):
            wl.Job(wl.Container(image, command=command)).submit()  # type: ignore[arg-type]
    assert not here.exists()


def test_a_function_runs_on_its_executor() -> None:
    executor = wl.Kubernetes(namespace="lab", queue="team", cpus=4, accelerator="a100x2")
    spec = Options(executor=executor, volumes={"/data": "claim:data"}).outline()
    [role] = spec.roles
    assert (spec.backend, role.resources.cpus) == ("kubernetes", 4.0)
    volumes = {"/data": "claim:data"}
    assert role.kubernetes == KubernetesOptions(namespace="lab", queue="team", volumes=volumes)
    here = Options(executor=wl.Local(cpus=2)).outline()
    assert (here.backend, here.roles[0].resources.cpus) == ("local", 2.0)
    assert Options(executor=executor).job(print).executor is executor


def test_an_option_of_the_executor_is_refused_as_a_job_option() -> None:
    executor = wl.Kubernetes(cpus=2)
    with pytest.raises(wl.InvalidArgument) as why:
        wl.run(executor=executor, cpus=4, backend="local", container_image="lab/train")
    assert "3 problems" in str(why.value)
    assert "executor=wl.Kubernetes(cpus=4)" in str(why.value)
    wrong: Any
    for wrong, meant in (("kubernetes", "Kubernetes"), (wl.Kubernetes, "Kubernetes"), (7, "Local")):
        with pytest.raises(wl.InvalidArgument, match=rf"is not an executor; write wl\.{meant}\("):
            wl.run(executor=wrong)
    with pytest.raises(wl.Unsupported, match=r"Windlass does not run jobs on wl\.Ray yet"):
        wl.run(executor=wl.Ray())
    options: Any = {"namespace": "lab"}
    with pytest.raises(wl.InvalidArgument, match=r"executor=wl\.Kubernetes\(namespace="):
        wl.run(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"backend": "kubernetes", "accelerator": "a100x2"},
            "Write executor=wl.Kubernetes(accelerator='a100x2', priority_class=...) "
            'in place of backend="kubernetes"',
        ),
        (
            {"executor": wl.Kubernetes(cpus=4)},
            "Set it on the executor: wl.Kubernetes(priority_class=...)",
        ),
        ({}, "Write wl.Job(wl.PythonFunction(...), priority=...).submit()"),
    ],
)
def test_a_priority_of_a_function_is_refused_with_the_right_option(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(wl.InvalidArgument) as caught:
        wl.run(**options, priority=5)
    assert "wl.run: there is no option 'priority'" in caught.value.message
    assert message in str(caught.value)


def test_a_priority_is_refused_where_the_cluster_orders_the_queue(here: Path) -> None:
    script, there = wl.PythonScript("train.py"), wl.Kubernetes(namespace="research")
    alone = wl.Job(script, executor=there, priority=5)
    roles = {"a": wl.Job(script), "b": wl.Job(script, executor=there)}
    for ask in (lambda: alone.submit(dry_run=True), lambda: wl.JobGroup(**roles, priority=5)):
        with pytest.raises(wl.InvalidArgument) as caught:
            ask()
        assert "priority: backend 'kubernetes' ignores priorities" in caught.value.message
        assert "wl.Kubernetes(priority_class=...)" in str(caught.value)
    wl.Job(script, executor=there, priority=0).submit(dry_run=True)
    wl.Job(script, priority=5).submit(dry_run=True)
