"""`windlass logs` of several replicas: whose line it is, and those of some."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cli.shells import Shell
from cli.terminals import PATIENCE
from roles import role
from windlass.client.trials import Trial
from windlass.model.job import RestartPolicy

# Attempt 1 of worker-1 fails; a role's name is in every line, and what it wrote to stderr.
PROGRAM = """
print("from", name, attempt)
if role == "worker":
    print("aside", name, attempt, file=sys.stderr)
sys.exit((role, index, attempt) == ("worker", 1, 1))
"""


@pytest.fixture(scope="module")
def job(shell: Shell) -> Trial[Any]:
    """A chief and two workers, of which one was started again."""
    workers = role(PROGRAM, replicas=2, restart_policy=RestartPolicy.ON_FAILURE)
    return shell.submit_roles(role(PROGRAM, "chief"), workers).wait(timeout=PATIENCE)


def test_each_line_has_the_name_of_its_writer(shell: Shell, job: Trial[Any]) -> None:
    done = shell("logs", str(job.id))
    assert sorted(done.stdout.splitlines()) == [
        "chief-0  | from chief-0 1",
        "worker-0 | from worker-0 1",
        "worker-1 | from worker-1 1",
        "worker-1 | from worker-1 2",
    ]
    assert sorted(done.stderr.splitlines()) == [
        "worker-0 | aside worker-0 1",
        "worker-1 | aside worker-1 1",
        "worker-1 | aside worker-1 2",
    ]


def test_a_terminal_tells_writers_apart_by_colour(shell: Shell, job: Trial[Any]) -> None:
    terminal = shell.terminal("logs", str(job.id), "--role", "worker", "--stdout")
    assert terminal.end() == 0
    prefixes = set(re.findall(r"^(\x1b\[\d+m)(worker-\d) \|", terminal.raw, re.MULTILINE))
    colours, names = zip(*sorted(prefixes), strict=True)
    assert sorted(names) == ["worker-0", "worker-1"]
    assert len(set(colours)) == 2


@pytest.mark.parametrize("follow", [[], ["-f"]])
@pytest.mark.parametrize(
    ("asked", "lines"),
    [
        (["--role", "chief"], ["from chief-0 1"]),
        (["--role", "worker", "--index", "1"], ["from worker-1 1", "from worker-1 2"]),
        (
            ["--index", "0"],
            ["chief-0  | from chief-0 1", "worker-0 | from worker-0 1"],
        ),
        (["--attempt", "2"], ["worker-1 | from worker-1 2"]),
        (["--role", "worker", "--index", "1", "--attempt", "1"], ["from worker-1 1"]),
    ],
)
def test_some_replicas_are_asked_for(
    shell: Shell, job: Trial[Any], asked: list[str], lines: list[str], follow: list[str]
) -> None:
    told = shell.good("logs", str(job.id), "--stdout", *asked, *follow)
    assert sorted(told.splitlines()) == lines


def test_json_names_the_writer_in_fields(shell: Shell, job: Trial[Any]) -> None:
    told = shell.good("logs", str(job.id), "--role", "worker", "--attempt", "2", "--json")
    lines = [json.loads(line) for line in told.splitlines()]
    assert {(line["role"], line["index"], line["attempt"]) for line in lines} == {("worker", 1, 2)}
    assert sorted(line["text"] for line in lines) == ["aside worker-1 2", "from worker-1 2"]


def test_following_goes_on_with_the_replicas_asked_for(shell: Shell, tmp_path: Path) -> None:
    gate = str(tmp_path / "go")
    program = f'print("begun", name)\nwait_for({gate!r})\nprint("ended", name)'
    job = shell.submit_roles(role(program, replicas=3))
    with shell.terminal("logs", "-f", str(job.id), "--index", "2").closing() as terminal:
        terminal.until("begun worker-2")
        Path(gate).touch()
        assert terminal.end() == 0
    assert terminal.lines == ["begun worker-2", "ended worker-2"]


def test_a_replica_that_is_not_there_is_an_error(shell: Shell, job: Trial[Any]) -> None:
    done = shell("logs", str(job.id), "--role", "workr")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"Trial {job.id} (mnist) has no role 'workr'.\n  It has: chief, worker." in done.stderr
    done = shell("logs", str(job.id), "--role", "chief", "--index", "1")
    assert done.returncode == 1
    assert "has no replica 1 of chief.\n  It has one: 0." in done.stderr
    done = shell("logs", str(job.id), "--index", "2")
    assert "has no replica 2.\n  They are numbered from 0 to 1." in done.stderr
    done = shell("logs", str(job.id), "--attempt", "3")
    assert done.stderr == f"Trial {job.id} (mnist) wrote nothing like that.\n"
