"""Submitted jobs and groups: every replica runs in its role with its arguments."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from harness import Project

SHARES_HOME = True

# Halves of a CPU, so that all roles of these jobs fit on any machine.
TELL = """
    import json, os, sys
    role, index = os.environ["WINDLASS_ROLE"], os.environ["WINDLASS_INDEX"]
    print(json.dumps([role, int(index), sys.argv[1:], os.environ.get("GREETING", "")]))
"""


def reported(project: Project, program: str) -> Any:
    """Return the last output line of a program, decoded from JSON."""
    project.write("submit.py", program)
    done = project.python("submit.py")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_every_replica_of_a_script_runs_with_its_arguments(project: Project, home: Path) -> None:
    project.write("train.py", TELL)
    state, name, params, lines, warned = reported(
        project,
        """
        import json, warnings
        import windlass as wl

        job = wl.Job(
            wl.PythonScript("train.py"),
            args={"lr": -0.1, "amp": True, "seed": None},
            env={"GREETING": "hello"},
            executor=wl.Local(cpus=0.5),
            replicas=2,
        )
        with warnings.catch_warnings(record=True) as caught:
            trial = job.submit()
        trial.wait()
        lines = sorted(json.loads(line) for line in trial.logs())
        warned = [(str(each.message), each.filename.endswith("submit.py")) for each in caught]
        print(json.dumps([trial.state, trial.name, trial.params, lines, warned]))
        """,
    )
    assert (state, name) == ("SUCCEEDED", "train")
    assert params == {"lr": -0.1, "amp": True, "seed": None}
    words = ["--lr=-0.1", "--amp"]
    assert lines == [["main", index, words, "hello"] for index in range(2)]
    assert warned == [["args: seed is None and was omitted", True]]


def test_the_roles_of_a_group_run_their_own_executables_and_arguments(
    project: Project, home: Path
) -> None:
    project.write("pkg/__init__.py", "")
    project.write("pkg/tell.py", TELL)
    project.write("jobs/tell.py", TELL)
    state, name, params, lines = reported(
        project,
        """
        import json
        import windlass as wl

        half = wl.Local(cpus=0.5)
        trial = wl.JobGroup(
            leader=wl.Job(wl.PythonScript("jobs/tell.py"), args=["--lr", 0.1], executor=half),
            follower=wl.Job(
                wl.PythonModule("pkg.tell"), args={"depth": 2}, executor=half, replicas=2
            ),
            experiment="roles",
        ).submit()
        trial.wait()
        lines = sorted(json.loads(line) for line in trial.logs())
        print(json.dumps([trial.state, trial.name, trial.params, lines]))
        """,
    )
    assert (state, name) == ("SUCCEEDED", "tell")
    assert params == {"leader": {"lr": 0.1}, "follower": {"depth": 2}}
    assert lines == [
        ["follower", 0, ["--depth=2"], ""],
        ["follower", 1, ["--depth=2"], ""],
        ["leader", 0, ["--lr", "0.1"], ""],
    ]


def test_a_function_runs_in_every_replica_and_the_value_of_rank_0_comes_back(
    project: Project, home: Path
) -> None:
    value, mapped, submitted, job, lines = reported(
        project,
        """
        import json
        import windlass as wl

        @wl.run(replicas=2, cpus=0.5)
        def train(lr):
            print("replica", wl.rank(), "of", wl.world_size())
            return [wl.rank(), lr]

        if __name__ == "__main__":
            value = train(0.1)
            trial = train.submit(0.2)
            submitted = trial.result()
            mapped = list(train.map([0.3, 0.4]))
            executable = wl.PythonFunction(train)
            job = wl.Job(executable, args=[0.5], replicas=2, executor=wl.Local(cpus=0.5)).submit()
            lines = sorted(str(line) for line in trial.logs())
            print(json.dumps([value, mapped, submitted, job.result(), lines]))
        """,
    )
    assert value == [0, 0.1]
    assert submitted == [0, 0.2]
    assert mapped == [[0, 0.3], [0, 0.4]]
    assert job == [0, 0.5]
    assert lines == ["replica 0 of 2", "replica 1 of 2"]


def test_an_invalid_job_is_refused_before_a_server_starts(
    project: Project, fresh_home: Path
) -> None:
    project.write(
        "submit.py",
        """
        import windlass as wl

        wl.Job(wl.PythonScript("trian.py"), replicas=0).submit()
        """,
    )
    done = project.python("submit.py")
    assert done.returncode == 1
    assert "windlass.InvalidArgument: wl.Job: 2 problems:" in done.stderr
    assert not fresh_home.exists()


@pytest.mark.parametrize(
    "line",
    [
        'wl.Job(wl.PythonScript("trian.py")).submit()',
        "wl.Job(JOB, executor=wl.Local(cpus=50_000)).submit()",
        "wl.Job(JOB, executor=wl.Local(cpus=50_000)).run()",
        "wl.JobGroup(frame_work=3)",
        "wl.JobGroup([])",
        "wl.run(cpus=50_000)(len).submit([])",
    ],
)
def test_a_traceback_has_at_most_one_frame_of_windlass(
    project: Project, home: Path, line: str
) -> None:
    project.write(
        "submit.py", f'import windlass as wl\nJOB = wl.Command(["true"])\n{line}  # the line\n'
    )
    done = project.python("submit.py")
    assert done.returncode == 1
    frames = re.findall(r'^  File "(.*)", line', done.stderr, re.MULTILINE)
    assert len(frames) <= 2, done.stderr
    assert Path(frames[0]).name == "submit.py"
    assert "# the line" in done.stderr
    assert re.search(r"^windlass\.\w+: ", done.stderr, re.MULTILINE)


def test_a_module_that_creates_a_group_imports_without_its_files(
    project: Project, home: Path
) -> None:
    """A trial imports the module of its function in its own folder."""
    project.write("jobs/tell.py", TELL)
    project.write(
        "jobs/steps.py",
        """
        import os
        import windlass as wl

        script = "not-there.py" if "WINDLASS_ROLE" in os.environ else "jobs/tell.py"
        group = wl.JobGroup(a=wl.Job(wl.PythonScript(script)))

        def count():
            return len(group.roles)
        """,
    )
    count = reported(
        project,
        """
        import sys
        sys.path.insert(0, "jobs")
        import steps
        import windlass as wl

        print(wl.run(steps.count)())
        """,
    )
    assert count == 1


def test_arguments_of_str_and_int_subclasses_keep_their_values(
    project: Project, home: Path
) -> None:
    project.write("train.py", TELL)
    state, name, lines = reported(
        project,
        """
        import enum, json
        import numpy as np
        import windlass as wl

        class Size(enum.IntEnum):
            PAIR = 2

        class Name(str):
            pass

        job = wl.Job(
            wl.PythonScript("train.py"),
            args=[Size.PAIR, np.str_("x")],
            env={Name("GREETING"): np.str_("hello")},
            executor=wl.Local(cpus=np.float64(0.5)),
            replicas=Size.PAIR,
            name=Name("named"),
        )
        trial = job.submit().wait()
        lines = sorted(json.loads(line) for line in trial.logs())
        print(json.dumps([trial.state, trial.name, lines]))
        """,
    )
    assert (state, name) == ("SUCCEEDED", "named")
    assert lines == [["main", index, ["2", "x"], "hello"] for index in range(2)]
