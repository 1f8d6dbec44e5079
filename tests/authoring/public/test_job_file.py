"""Job files define the same jobs as Python, and every problem is reported with its line."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest

import windlass as wl
from windlass.authoring.prepare.job_spec import build_outline
from windlass.authoring.public.job_file import read_job


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with jobs in a subfolder; the working directory is the project."""
    project = tmp_path / "project"
    for name in ("train.py", "jobs/other.py", "pkg/__init__.py", "pkg/train.py"):
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (project / "pyproject.toml").touch()
    (project / "jobs" / "steps_of_a_job.py").write_text("def add(a, b=2): return a + b\n")
    (project / "jobs" / "broken_steps.py").write_text("1 / 0\n")
    (project / "jobs" / "tool.sh").write_text("#!/bin/sh\n")
    (project / "jobs" / "tool.sh").chmod(0o755)
    monkeypatch.chdir(project)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return project


def write(text: str, name: str = "jobs/job.toml") -> str:
    Path(name).write_text(textwrap.dedent(text).lstrip("\n"))
    return name


def refused(text: str) -> list[str]:
    """The problems of a file, without the header that counts them."""
    with pytest.raises(wl.InvalidArgument) as error:
        read_job(write(text))
    lines = str(error.value).splitlines()
    if "problems:" in lines[0]:
        assert lines[0] == f"{len([line for line in lines if line.startswith('  - ')])} problems:"
        return [line.removeprefix("  - ") for line in lines[1:] if line.startswith("  - ")]
    return lines[:1]


def test_a_single_job_has_its_fields_at_the_top(folder: Path) -> None:
    job = read_job(
        write("""
        script = "other.py"
        args = { lr = 0.1, tags = ["a", "b"] }
        env = { A = "1" }
        executor = { cpus = 2, memory = "4GB" }
        replicas = 4
        framework = "torch"
        restart_policy = "ExitCode"
        restart_scope = "job"
        backoff_limit = 3
        active_deadline = "2h"
        ttl_after_finished = 90
        clean_policy = "None"
        priority = 2
        suspend = true
        name = "mine"
        experiment = "ours"
        secrets = ["TOKEN"]
        volumes = { data = "../pkg" }
        """)
    )
    assert job == wl.Job(
        wl.PythonScript("jobs/other.py"),
        args={"lr": 0.1, "tags": ["a", "b"]},
        env={"A": "1"},
        executor=wl.Local(cpus=2, memory="4GB"),
        replicas=4,
        framework="torch",
        restart_policy="ExitCode",
        restart_scope="job",
        backoff_limit=3,
        active_deadline="2h",
        ttl_after_finished=90,
        clean_policy="None",
        priority=2,
        suspend=True,
        name="mine",
        experiment="ours",
        secrets=["TOKEN"],
        volumes={"data": "pkg"},
    )
    assert build_outline(job).volumes[0].source == str(folder / "pkg")


def test_a_job_with_roles_has_a_table_for_each() -> None:
    job = read_job(
        write("""
        framework = "tensorflow"

        [roles.chief]
        script = "../train.py"
        args = ["--lr", 0.1]

        [roles.worker]
        module = "pkg.train"
        replicas = 2
        [roles.worker.env]
        A = "1"

        [roles.ps]
        command = ["./tool.sh", "x"]
        """)
    )
    assert job == wl.JobGroup(
        chief=wl.Job(wl.PythonScript("train.py"), args=["--lr", 0.1]),
        worker=wl.Job(wl.PythonModule("pkg.train"), replicas=2, env={"A": "1"}),
        ps=wl.Job(wl.Command(["jobs/tool.sh", "x"])),
        framework="tensorflow",
    )


def test_a_function_beside_the_file_is_found_and_its_arguments_are_checked() -> None:
    job = read_job(write('function = "steps_of_a_job:add"\nargs = { a = 1 }'))
    assert isinstance(job, wl.Job)
    assert isinstance(job.executable, wl.PythonFunction)
    assert job.executable.function(1) == 3
    assert refused('function = "steps_of_a_job:add"\nargs = { c = 1 }') == [
        "jobs/job.toml:2: args: add(a, b=2): missing a required argument: 'a'; there is no 'c'"
    ]


def test_commands_of_the_machine_stay_unchanged() -> None:
    assert read_job(write('command = ["echo", "x"]')) == wl.Job(wl.Command(["echo", "x"]))
    assert read_job(write('command = ["tool.sh"]')) == wl.Job(wl.Command(["jobs/tool.sh"]))
    beside = write('command = ["./tool.sh"]', "job.toml")
    Path("jobs/tool.sh").rename("tool.sh")
    assert read_job(beside) == wl.Job(wl.Command(["./tool.sh"]))


def test_all_problems_are_reported_at_once_in_the_order_of_lines(folder: Path) -> None:
    text = """
        # a comment
        frameworkk = "x"
        framework = "tensorflow"
        backoff_limit = -1
        "clean_policy" = "Runing"
        env = { A = "1" }

        [roles.chief]
        script = "../trian.py"
        replicas = 2
        args = { lr = 0.1, "a key" = 3 }

        [roles.worker]
        module = "pkg.train"
        command = ["ls"]
        restart_policy = "OnFailur"
        framework = "torch"
        [roles.worker.env]
        GOOD = "x"
        BAD = 3
        [roles.worker.executor]
        cpus = -2
        memry = "4GB"

        [roles.chef]
        function = "steps_of_a_job:ad"
    """
    assert refused(text) == [
        "jobs/job.toml:2: there is no key 'frameworkk'; did you mean 'framework'?",
        "jobs/job.toml:4: backoff_limit: -1 is not a valid number of restarts; write 0, 1, 2, ...",
        "jobs/job.toml:5: clean_policy: 'Runing' is not a valid value; did you mean 'Running'?",
        "jobs/job.toml:6: env is an option of a role; write it under [roles.…]",
        "jobs/job.toml:8: tensorflow has one chief; there are 2",
        f"jobs/job.toml:9: chief: executable: there is no script 'trian.py' in {folder}",
        "jobs/job.toml:11: chief: args: 'a key' is not a valid flag name",
        "jobs/job.toml:15: worker: module and command are given; "
        "write one of script, module, command, function",
        "jobs/job.toml:16: worker: restart_policy: 'OnFailur' is not a valid value; "
        "did you mean 'OnFailure'?",
        "jobs/job.toml:17: worker: framework is an option of the whole job; write it "
        "above [roles.…]",
        'jobs/job.toml:20: worker: env: BAD is 3; a variable is a string: "3"',
        "jobs/job.toml:22: worker: executor: cpus: -2 is out of range; request more than "
        "0 and at most 100,000",
        "jobs/job.toml:23: worker: there is no key 'memry'; did you mean 'memory'?",
        "jobs/job.toml:25: tensorflow has no role 'chef'; did you mean 'chief'?",
        "jobs/job.toml:26: chef: function: steps_of_a_job has no 'ad'; "
        "did you mean 'steps_of_a_job:add'?",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "jobs/job.toml:1: the job names no program; write one of script, module, command"),
        (
            '\nscript = "x.py"\nreplicas = = 3',
            "jobs/job.toml:2: this is not valid TOML: invalid value.",
        ),
        ('script = "x.py', "jobs/job.toml:1: this is not valid TOML: "),
        ("a = 1\na = 2", "jobs/job.toml:2: this is not valid TOML: cannot overwrite a value."),
        ("roles = 3", "jobs/job.toml:1: roles: write a table for each role: [roles.worker]"),
        ("[roles]", "jobs/job.toml:1: a group needs at least one role"),
        ("[roles]\nchief = 3", "jobs/job.toml:2: chief: 3 is not a table; write [roles.chief]"),
        ("name = 'x'\n[roles.chief]", "jobs/job.toml:2: chief: the job names no program"),
        ("script = 3", "jobs/job.toml:1: script: 3 is not a string"),
        ("command = 'ls -l'", "jobs/job.toml:1: executable: a command is a list of words"),
        ("command = []", "jobs/job.toml:1: executable: the command is empty"),
        ("module = 'pkg.trian'", "jobs/job.toml:1: executable: there is no module 'pkg.trian'"),
        (
            "function = 'x'",
            "jobs/job.toml:1: function: 'x' does not name a function; write 'pkg.module:name'",
        ),
        (
            "function = 'broken_steps:f'",
            "jobs/job.toml:1: function: broken_steps cannot be imported: ZeroDivisionError",
        ),
        (
            "function = 'not_there_at_all:f'",
            "function: not_there_at_all cannot be imported: ModuleNotFoundError",
        ),
        (
            "script = 'other.py'\nexecutor = 'local'",
            "jobs/job.toml:2: executor: 'local' is not a table; write executor = { cpus = 2",
        ),
        ("script = 'other.py'\nargs = 'x'", "jobs/job.toml:2: args: 'x' is neither a mapping"),
        (
            "script = 'other.py'\n[args]\na = 1\nb = 2026-01-01",
            "jobs/job.toml:4: args: b is datetime.date(2026, 1, 1), which is neither",
        ),
        ("script = 'other.py'\nenv.A = 1", "jobs/job.toml:2: env: A is 1; a variable is a string"),
        (
            "script = 'other.py'\n\nreplicas = 0",
            "jobs/job.toml:3: replicas: 0 is not a valid number of",
        ),
        (
            "script = 'other.py'\nreplicas = 1.5",
            "jobs/job.toml:2: replicas: 1.5 is not a valid number of",
        ),
        ("script = 'other.py'\nframework = 'pytorch'", "job.toml:2: framework: there is no"),
        (
            "script = 'other.py'\nsuccess_policy = 'AllWorkers'",
            'jobs/job.toml:2: success_policy "AllWorkers" is for framework "tensorflow"',
        ),
        (
            "script = 'other.py'\n[volumes]\ndata = '../none'",
            "jobs/job.toml:3: volumes: 'none' does not exist on this machine; "
            "create it or change the path",
        ),
        (
            "script = 'other.py'\ncpus = 1",
            "job.toml:2: there is no key 'cpus'; write executor = { cpus = 1 }",
        ),
        (
            "script = 'other.py'\nmemory = '4GB'",
            "no key 'memory'; write executor = { memory = \"4GB\" }",
        ),
        ("script = 'other.py'\naccelerator = {}", "write executor = { accelerator = … }"),
        ("script = 'other.py'\ntimeout = '2h'", "no key 'timeout'; write active_deadline"),
        ("script = 'other.py'\nretries = 3", "no key 'retries'; write backoff_limit"),
        (
            "[worker]\nscript = 'other.py'",
            "job.toml:1: there is no key 'worker'; write [roles.worker]",
        ),
        (
            "[roles.a]\nscript = 'other.py'\n[worker]\nscript = 'x.py'",
            "job.toml:3: there is no key 'worker'; write [roles.worker]",
        ),
        (
            "[roles.a]\nscript = 'other.py'\ntimeout = 3",
            "job.toml:3: a: there is no key 'timeout'; write active_deadline above [roles.…]",
        ),
        (
            "script = 'other.py'\nzzz = 3",
            "there is no key 'zzz'; choose one of: script, module, command, function, args, env, "
            "executor, replicas, ...",
        ),
        (
            "script = 'other.py'\nexecutor = { zzz = 1 }",
            "there is no key 'zzz'; choose one of: cpus, memory, accelerator",
        ),
        ("[roles.A]\nscript = 'other.py'", "jobs/job.toml:1: 'A' is not a valid role name"),
        ("[roles.name]\nscript = 'other.py'", "job.toml:1: 'name' is the name of an option"),
    ],
)
def test_a_problem_is_reported_with_file_and_line(text: str, message: str) -> None:
    [problem] = refused(text)
    assert message in problem


def test_an_unreadable_file_is_reported() -> None:
    write("script = 'other.py'")
    with pytest.raises(
        wl.InvalidArgument, match=r"no job file 'jbo.toml' in /.*/jobs\.\n.*job.toml'\?"
    ):
        read_job("jobs/jbo.toml")
    with pytest.raises(wl.InvalidArgument, match="cannot be read: Is a directory"):
        read_job("jobs")
    Path("latin.toml").write_bytes(b"name = '\xe9'")
    with pytest.raises(wl.InvalidArgument, match="is not UTF-8 text"):
        read_job("latin.toml")


def test_a_module_that_exits_or_lacks_the_function_is_reported(folder: Path) -> None:
    (folder / "jobs" / "leaving_steps.py").write_text("raise SystemExit(3)\n")
    assert refused("function = 'leaving_steps:add'") == [
        "jobs/job.toml:1: function: leaving_steps cannot be imported: SystemExit: 3"
    ]
    assert refused("function = 'os:getcwd.x'") == [
        "jobs/job.toml:1: function: os has no 'getcwd.x'"
    ]


@pytest.mark.parametrize(
    "value", ["9" * 5000, "[" * 5000 + "]" * 5000, "{a=" * 3000 + "1" + "}" * 3000]
)
def test_invalid_python_is_reported(value: str) -> None:
    path = write(f"script = 'other.py'\nargs = {{ x = {value} }}\n")
    with pytest.raises(
        wl.InvalidArgument, match="cannot be read: it contains a number with thousands"
    ):
        read_job(path)


def test_an_endless_file_is_not_read_to_its_end() -> None:
    with pytest.raises(wl.InvalidArgument, match="'/dev/zero' is larger than 1000 KB"):
        read_job("/dev/zero")


def test_a_byte_order_mark_is_ignored() -> None:
    job = read_job(write("\ufeffscript = 'other.py'\n"))
    assert job == wl.Job(wl.PythonScript("jobs/other.py"))
