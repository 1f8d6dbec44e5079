"""Jobs and groups are values with a known spec, and every problem with them is reported."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from windlass.authoring.checks.job import ROLE, WHOLE, check_job
from windlass.authoring.prepare.job_spec import build_outline, prepare_job
from windlass.frameworks import build_cluster
from windlass.model.job import (
    CleanPolicy,
    RestartPolicy,
    RestartScope,
    SuccessPolicy,
    Volume,
)

SCRIPT = wl.PythonScript("train.py")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a script, as the working directory. No server exists or is started."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").touch()
    (project / "train.py").touch()
    monkeypatch.chdir(project)
    monkeypatch.setenv("WINDLASS_SERVER", "http://127.0.0.1:9")
    monkeypatch.setenv("WINDLASS_HOME", str(tmp_path / "home"))
    return project


def refusal(make: Any) -> str:
    """Return the error for an invalid job, and check that it had no effect."""
    with pytest.raises(wl.InvalidArgument) as refused:
        make()
    return str(refused.value)


# -- specs ----------------------------------------------------------------------------


def test_a_plain_job_runs_once_and_has_the_defaults() -> None:
    spec = build_outline(wl.Job(SCRIPT))
    [role] = spec.roles
    assert (role.name, role.replicas, role.service) == ("main", 1, False)
    assert role.restart_policy is RestartPolicy.NEVER
    assert (spec.framework, spec.backoff_limit) == ("", 6)
    assert spec.restart_scope is RestartScope.REPLICA
    assert spec.clean_policy is CleanPolicy.RUNNING
    assert spec.success_policy is SuccessPolicy.DEFAULT
    assert (spec.active_deadline, spec.ttl_after_finished) == (None, None)
    assert (spec.suspend, spec.priority) == (False, 0)


def test_a_job_with_a_framework_or_several_replicas_restarts_on_failure() -> None:
    torch = build_outline(wl.Job(SCRIPT, framework="torch"))
    assert (torch.roles[0].name, torch.restart_scope) == ("worker", RestartScope.JOB)
    several = build_outline(wl.Job(SCRIPT, replicas=2))
    assert (several.roles[0].name, several.restart_scope) == ("main", RestartScope.REPLICA)
    two = build_outline(wl.JobGroup(a=wl.Job(SCRIPT), b=wl.Job(SCRIPT)))
    policies = {role.restart_policy for spec in (torch, several, two) for role in spec.roles}
    assert policies == {RestartPolicy.ON_FAILURE}


def test_every_field_reaches_the_spec(folder: Path) -> None:
    job = wl.Job(
        SCRIPT,
        env={"A": "1"},
        executor=wl.Local(cpus=2, memory="4GB", accelerator="a100x2"),
        replicas=4,
        framework="torch",
        restart_policy="ExitCode",
        restart_scope="replica",
        backoff_limit=0,
        active_deadline="2h",
        ttl_after_finished=90,
        clean_policy="None",
        priority=-5,
        suspend=True,
        service=False,
        secrets=["TOKEN"],
        volumes={"data": folder},
    )
    check_job(job)
    spec = build_outline(job)
    [role] = spec.roles
    assert (role.replicas, role.env, role.service) == (4, {"A": "1"}, False)
    assert str(role.resources) == "2 CPUs, 4.0 GB, a100x2"
    assert role.restart_policy is RestartPolicy.EXIT_CODE
    assert spec.restart_scope is RestartScope.REPLICA
    assert (spec.backoff_limit, spec.active_deadline, spec.ttl_after_finished) == (0, 7200, 90)
    assert spec.clean_policy is CleanPolicy.NONE
    assert (spec.priority, spec.suspend, spec.secret_names) == (-5, True, ("TOKEN",))
    assert spec.volumes == (Volume(target="data", source=str(folder)),)


def test_a_group_keeps_the_order_of_its_roles_and_marks_services() -> None:
    group = wl.JobGroup(
        {"ps": wl.Job(SCRIPT)},
        chief=wl.Job(SCRIPT),
        worker=wl.Job(SCRIPT, replicas=2),
        evaluator=wl.Job(SCRIPT, service=False),
        framework="tensorflow",
        success_policy=SuccessPolicy.ALL_WORKERS,
        ttl_after_finished=0,
    )
    spec = build_outline(group)
    assert [(role.name, role.replicas, role.service) for role in spec.roles] == [
        ("ps", 1, True),
        ("chief", 1, False),
        ("worker", 2, False),
        ("evaluator", 1, False),
    ]
    assert spec.success_policy is SuccessPolicy.ALL_WORKERS
    assert spec.ttl_after_finished == 0


def test_arguments_are_recorded_by_role_unless_all_training_roles_share_them() -> None:
    def recorded(**args: Any) -> object:
        roles = {name: wl.Job(SCRIPT, args=role_args) for name, role_args in args.items()}
        return prepare_job(wl.JobGroup(roles, framework="tensorflow")).params

    flags = {"lr": 0.1}
    assert recorded(chief=flags, worker=flags) == flags
    assert recorded(chief=flags, worker=flags, ps=["600"]) == flags
    assert recorded(chief=None, worker=None, ps=["600"]) == {"ps": {"args": [600]}}
    assert recorded(chief=flags, worker=None, ps=flags) == {"chief": flags, "ps": flags}
    assert recorded(chief=flags, worker={"lr": 1}) == {"chief": flags, "worker": {"lr": 1}}
    assert recorded(chief=None, worker=None) == {}


@pytest.mark.parametrize("policy", [RestartPolicy.EXIT_CODE, "ExitCode"])
def test_a_policy_is_a_text_or_the_value_itself(policy: str) -> None:
    job = wl.Job(SCRIPT, restart_policy=policy)
    check_job(job)
    assert build_outline(job).roles[0].restart_policy is RestartPolicy.EXIT_CODE


def test_jobs_are_values() -> None:
    job = wl.Job(SCRIPT, replicas=2)
    assert job == wl.Job(SCRIPT, replicas=2) != wl.Job(SCRIPT)
    assert repr(job) == "Job(executable=PythonScript(path='train.py'), replicas=2)"
    assert wl.JobGroup(a=job) == wl.JobGroup({"a": job})
    for value in (job, wl.JobGroup(a=job), wl.Local(), SCRIPT):
        with pytest.raises(dataclasses.FrozenInstanceError):
            value.name = "other"  # type: ignore[union-attr, misc]


def test_secret_values_are_neither_shown_nor_pickled() -> None:
    secret = {"TOKEN": "swordfish"}
    for job in (wl.Job(SCRIPT, secrets=secret), wl.JobGroup(a=wl.Job(SCRIPT), secrets=secret)):
        assert "swordfish" not in repr(job)
        assert b"swordfish" not in pickle.dumps(job)
        assert pickle.loads(pickle.dumps(job)).secrets == ("TOKEN",)


def test_a_group_has_all_options_of_a_job_except_those_of_a_role() -> None:
    import inspect

    of_job = set(inspect.signature(wl.Job).parameters)
    of_group = set(inspect.signature(wl.JobGroup).parameters)
    assert of_job == {*WHOLE, *ROLE}
    assert of_group == {*WHOLE, "roles", "role_jobs"}
    assert all(f"    {name}: " in (wl.Job.__doc__ or "") for name in of_job)


# -- problems -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"replicas": 0}, "replicas: 0 is not a valid number of replicas; write 1, 2, 3, ..."),
        ({"replicas": -1}, "replicas: -1 is not a valid number of replicas"),
        ({"replicas": 1.0}, "replicas: 1.0 is not a valid number of replicas"),
        ({"replicas": True}, "replicas: True is not a valid number of replicas"),
        ({"replicas": "4"}, "replicas: '4' is not a valid number of replicas"),
        ({"replicas": 10_001}, "replicas: 10001 is out of range"),
        ({"framework": "pytorch"}, "there is no framework 'pytorch'; did you mean 'torch'?"),
        ({"framework": 3}, "framework: 3 is not a framework"),
        ({"framework": ["torch"]}, "framework: ['torch'] is not a framework"),
        (
            {"restart_policy": "OnFailur"},
            "'OnFailur' is not a valid value; did you mean 'OnFailure'?",
        ),
        ({"restart_policy": "exitcode"}, "did you mean 'ExitCode'?"),
        ({"restart_policy": 3}, "choose one of: 'Never', 'OnFailure', 'Always', 'ExitCode'"),
        ({"restart_policy": CleanPolicy.ALL}, "restart_policy: <CleanPolicy.ALL: 'All'> is not"),
        (
            {"restart_scope": "jobs"},
            "restart_scope: 'jobs' is not a valid value; did you mean 'job'?",
        ),
        (
            {"clean_policy": "Runing"},
            "clean_policy: 'Runing' is not a valid value; did you mean 'Running'?",
        ),
        ({"success_policy": "AllWorker"}, "did you mean 'AllWorkers'?"),
        ({"success_policy": "AllWorkers"}, 'is for framework "tensorflow" with workers'),
        ({"backoff_limit": -1}, "backoff_limit: -1 is not a valid number of restarts"),
        ({"backoff_limit": True}, "backoff_limit: True is not a valid number of restarts"),
        ({"active_deadline": "soon"}, "active_deadline: 'soon' is not a duration"),
        ({"active_deadline": 0}, "active_deadline: 0 is out of range"),
        ({"ttl_after_finished": -1}, "ttl_after_finished: -1 is out of range"),
        ({"ttl_after_finished": False}, "ttl_after_finished: False is not a duration"),
        ({"priority": 1.5}, "priority: 1.5 is not a valid priority"),
        ({"priority": 10**9}, "priority: 1000000000 is not a valid priority"),
        ({"suspend": "yes"}, "suspend: 'yes' is not True or False"),
        ({"service": 1}, "service: 1 is not True or False"),
        ({"name": ""}, "name: '' is not a valid name"),
        ({"experiment": "a\nb"}, "is not a valid name; write a string on one line"),
        ({"env": {"A": 3}}, 'env: A is 3; a variable is a string: "3"'),
        ({"env": ["A=3"]}, "env: ['A=3'] is not a mapping"),
        (
            {"env": {"WINDLASS_RANK": "1"}},
            "env: WINDLASS_RANK is set by Windlass; choose another name",
        ),
        ({"executor": "local"}, "executor: 'local' is not an executor; write wl.Local(cpus=2)"),
        ({"executor": wl.Local(cpus=0)}, "executor: cpus: 0 is out of range"),
        ({"executor": wl.Local(memory="4XB")}, "executor: memory: '4XB' is not a size"),
        ({"executor": wl.Local(accelerator="h10")}, "did you mean 'h100'?"),
        ({"args": {"--lr": 1}}, "args: '--lr' is not a valid flag name"),
        ({"volumes": {"data": "/not/there"}}, "volumes: '/not/there' does not exist"),
        ({"packages": "numpy"}, "packages: write a list"),
        ({"secrets": "TOKEN"}, 'secrets: write a list: secrets=["TOKEN"]'),
    ],
    ids=repr,
)
def test_an_invalid_field_is_reported(fields: dict[str, Any], message: str) -> None:
    refusal_message = refusal(wl.Job(SCRIPT, **fields).submit)
    assert refusal_message.startswith("wl.Job: ")
    assert message in refusal_message
    assert "problems" not in refusal_message


def test_all_problems_of_a_job_are_reported_at_once() -> None:
    job = wl.Job(
        wl.PythonScript("trian.py"),
        args={"--lr": 1},
        replicas=0,
        framework="pytorch",
        restart_policy="OnFailur",
        backoff_limit=-1,
    )
    message = refusal(job.submit)
    assert message.startswith("wl.Job: 6 problems:")
    for field in ("executable", "args", "replicas", "framework", "restart_policy", "backoff_limit"):
        assert f"- {field}: " in message


def test_all_problems_of_a_group_are_reported_at_once_with_role_and_field() -> None:
    def make() -> object:
        return wl.JobGroup(
            chef=wl.Job(SCRIPT, framework="torch"),
            chief=wl.Job(wl.PythonModule("trainn"), replicas=2),
            worker=wl.Job(SCRIPT, replicas=0, restart_policy="Alway"),
            ps="train.py",  # type: ignore[arg-type]
            Big=wl.Job(wl.Command([])),
            framework="tensorflow",
            clean_policy="Alll",
        )

    lines = refusal(make).splitlines()
    assert lines[0] == "wl.JobGroup: 10 problems:"
    assert [line for line in lines[1:] if line.startswith("  - ")] == [
        "  - clean_policy: 'Alll' is not a valid value; did you mean 'All'?",
        "  - chef: framework is an option of the whole group; write wl.JobGroup(..., "
        "framework=...)",
        "  - chief: executable: there is no module 'trainn'",
        "  - worker: replicas: 0 is not a valid number of replicas; write 1, 2, 3, ...",
        "  - worker: restart_policy: 'Alway' is not a valid value; did you mean 'Always'?",
        "  - ps: 'train.py' is not a job; write ps=wl.Job(...)",
        "  - 'Big' is not a valid role name; use at most 40 lowercase letters, digits and dashes, "
        "with a letter first",
        "  - Big: executable: the command is empty; write its words: "
        'wl.Command(["torchrun", "train.py"])',
        "  - tensorflow has no role 'chef'; did you mean 'chief'?",
        "  - tensorflow has one chief; there are 2",
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: wl.JobGroup(), "a group needs at least one role; add one: worker=wl.Job(...)"),
        (lambda: wl.JobGroup({}), "a group needs at least one role"),
        (lambda: wl.JobGroup(wl.Job(SCRIPT)), "is not a mapping of roles"),  # type: ignore[arg-type]
        (lambda: wl.JobGroup({"a": wl.Job(SCRIPT)}, a=wl.Job(SCRIPT)), "a is given twice"),
        (lambda: wl.JobGroup(name=wl.Job(SCRIPT)), "'name' is the name of an option"),  # type: ignore[arg-type]
        (lambda: wl.JobGroup({"env": wl.Job(SCRIPT)}), "'env' is the name of an option"),
        (lambda: wl.JobGroup({"a_b": wl.Job(SCRIPT)}), "'a_b' is not a valid role name"),
        (lambda: wl.JobGroup({"a" * 41: wl.Job(SCRIPT)}), "is not a valid role name"),
        (lambda: wl.JobGroup({3: wl.Job(SCRIPT)}), "3 is not a valid role name"),  # type: ignore[dict-item]
        (
            lambda: wl.JobGroup(a=wl.JobGroup(b=wl.Job(SCRIPT))),  # type: ignore[arg-type]
            "a: a role is a wl.Job, not a group",
        ),
        (
            lambda: wl.JobGroup(a=wl.Job(SCRIPT), frame_work="torch"),  # type: ignore[arg-type]
            "there is no option 'frame_work'; did you mean 'framework'?",
        ),
        (
            lambda: wl.JobGroup(a=wl.Job(SCRIPT), restart_policy="Never"),  # type: ignore[arg-type]
            "restart_policy is an option of a role, not of the group",
        ),
        (
            lambda: wl.JobGroup(
                chief=wl.Job(SCRIPT), master=wl.Job(SCRIPT), framework="tensorflow"
            ),
            "a job may have a chief or a master, not both",
        ),
    ],
)  # fmt: skip
def test_an_invalid_group_is_reported(make: Any, message: str) -> None:
    assert message in refusal(make)


@pytest.mark.parametrize(
    ("framework", "role", "message"),
    [
        ("torch", "wroker", "torch has no role 'wroker'; did you mean 'worker'?"),
        (
            "torch",
            "chief",
            "torch has no role 'chief'; its roles are: master, worker "
            "(and any role with service=True)",
        ),
        ("jax", "workers", "jax has no role 'workers'; did you mean 'worker'?"),
        (
            "jax",
            "chief",
            "jax has no role 'chief'; its roles are: worker (and any role with service=True)",
        ),
        (
            "tensorflow",
            "board",
            "tensorflow has no role 'board'; its roles are: chief, master, worker, ps, evaluator",
        ),
    ],
)
def test_a_role_unknown_to_the_framework_is_refused(
    framework: str, role: str, message: str
) -> None:
    roles = {"worker": wl.Job(SCRIPT), role: wl.Job(SCRIPT)}
    assert refusal(lambda: wl.JobGroup(roles, framework=framework)) == f"wl.JobGroup: {message}"


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_service_has_any_name_and_no_rank(framework: str) -> None:
    board = wl.Job(SCRIPT, service=True)
    group = wl.JobGroup(board=board, worker=wl.Job(SCRIPT, replicas=2), framework=framework)
    cluster = build_cluster(build_outline(group), {})
    assert [(member.role, cluster.rank(member)) for member in cluster.members] == [
        ("board", None),
        ("worker", 0),
        ("worker", 1),
    ]


def test_a_service_of_a_tensorflow_group_has_a_tensorflow_role_name() -> None:
    board = wl.Job(SCRIPT, service=True)
    message = refusal(
        lambda: wl.JobGroup(board=board, worker=wl.Job(SCRIPT), framework="tensorflow")
    )
    assert "tensorflow has no role 'board'" in message


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_a_job_wide_field_is_refused_in_a_role(name: str, folder: Path) -> None:
    value = {
        "priority": 3,
        "suspend": True,
        "backoff_limit": 2,
        "packages": ["numpy"],
        "secrets": ["TOKEN"],
        "volumes": {"data": folder},
    }.get(name, "torch")
    message = refusal(lambda: wl.JobGroup(a=wl.Job(SCRIPT, **{name: value})))
    assert message == (
        f"wl.JobGroup: a: {name} is an option of the whole group; write wl.JobGroup(..., "
        f"{name}=...)"
    )


def test_roles_of_different_projects_are_refused(tmp_path: Path) -> None:
    far = tmp_path / "elsewhere" / "far.py"
    far.parent.mkdir()
    far.touch()
    message = refusal(lambda: wl.JobGroup(a=wl.Job(SCRIPT), b=wl.Job(wl.PythonScript(far))))
    assert f"wl.JobGroup: b: executable: {str(far)!r} is outside the project" in message
    check_job(wl.Job(wl.PythonScript(far)))  # alone, it has its own project


def test_arguments_that_a_function_does_not_take_are_refused() -> None:
    def train(lr: float, epochs: int = 3) -> None: ...

    for args, message in (
        ({"rate": 1}, "args: train(lr: 'float', epochs: 'int' = 3) -> 'None': missing a required"),
        ({"rate": 1}, "missing a required argument: 'lr'; there is no 'rate'"),
        ({"lr": 1, "rate": 1}, "got an unexpected keyword argument 'rate'"),
        ([1, 2, 3], "too many positional arguments"),
        ({1: 2}, "args: the names of function arguments must be strings"),
        ("fast", "is neither a mapping of arguments by name nor a list of arguments"),
    ):
        assert message in refusal(wl.Job(wl.PythonFunction(train), args=args).submit)  # type: ignore[arg-type]
    check_job(wl.Job(wl.PythonFunction(train), args={"lr": object()}))


def test_a_secret_is_refused_where_it_would_be_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "swordfish")
    for fields in ({"args": ["--token=swordfish"]}, {"env": {"COPY": "swordfish"}}):
        message = refusal(wl.Job(SCRIPT, secrets=["TOKEN"], **fields).submit)  # type: ignore[arg-type]
        assert "The value of the secret TOKEN is in args= or env=, which are recorded." in message
    assert "secret 'NOT_SET' is not set" in refusal(wl.Job(SCRIPT, secrets=["NOT_SET"]).submit)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: wl.Job(SCRIPT, replica=2, cpus=1),  # type: ignore[call-arg]
            "wl.Job: 2 problems:\n"
            "  - there is no option 'replica'; did you mean 'replicas'?\n"
            "  - there is no option 'cpus'; write executor=wl.Local(cpus=...)",
        ),
        (
            lambda: wl.Job(SCRIPT, timeout="2h"),  # type: ignore[call-arg]
            "wl.Job: there is no option 'timeout'; did you mean 'active_deadline'?",
        ),
        (
            lambda: wl.Local(gpus=1),  # type: ignore[call-arg]
            "wl.Local: there is no option 'gpus'; did you mean 'accelerator'?",
        ),
        (
            lambda: wl.Kubernetes(image="lab/train"),  # type: ignore[call-arg]
            "wl.Kubernetes: there is no option 'image'; did you mean 'container_image'?",
        ),
        (
            lambda: wl.run(gpus=1),  # type: ignore[call-overload]
            "wl.run: there is no option 'gpus'; did you mean 'accelerator'?",
        ),
    ],
)
def test_an_unknown_field_is_reported_with_a_suggestion(make: Any, message: str) -> None:
    assert refusal(make) == message


def test_run_options_for_several_replicas_are_checked_with_the_others() -> None:
    message = refusal(lambda: wl.run(replicas=0, framework="pytorch", cpus=-1))
    assert message.startswith("wl.run: 3 problems:")
    assert "replicas: 0 is not a valid number of replicas" in message
    assert "framework: there is no framework 'pytorch'; did you mean 'torch'?" in message
