"""`windlass logs` of several replicas: the writer of each line, and filters by replica."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cli.shells import Shell
from cli.terminals import PATIENCE
from job_requests import role
from windlass.client.resources.trial.trial import Trial
from windlass.model.job import RestartPolicy

# Attempt 1 of worker-1 fails. Every line names its role, also on stderr.
PROGRAM = """
print("from", name, attempt)
if role == "worker":
    print("aside", name, attempt, file=sys.stderr)
sys.exit((role, index, attempt) == ("worker", 1, 1))
"""


@pytest.fixture(scope="module")
def job(shell: Shell) -> Trial[Any]:
    """A chief and two workers, one of which restarted."""
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


def test_a_terminal_shows_each_writer_in_its_own_colour(shell: Shell, job: Trial[Any]) -> None:
    terminal = shell.terminal("logs", str(job.id), "--role", "worker", "--stdout")
    assert terminal.end() == 0
    prefixes = set(re.findall(r"^(\x1b\[\d+m)(worker-\d) \|", terminal.raw, re.MULTILINE))
    colours, names = zip(*sorted(prefixes), strict=True)
    assert sorted(names) == ["worker-0", "worker-1"]
    assert len(set(colours)) == 2


@pytest.mark.parametrize("follow", [[], ["-f"]])
@pytest.mark.parametrize(
    ("options", "lines"),
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
def test_logs_of_some_replicas_can_be_selected(
    shell: Shell, job: Trial[Any], options: list[str], lines: list[str], follow: list[str]
) -> None:
    output = shell.good("logs", str(job.id), "--stdout", *options, *follow)
    assert sorted(output.splitlines()) == lines


def test_json_names_the_writer_in_fields(shell: Shell, job: Trial[Any]) -> None:
    output = shell.good("logs", str(job.id), "--role", "worker", "--attempt", "2", "--json")
    lines = [json.loads(line) for line in output.splitlines()]
    assert {(line["role"], line["index"], line["attempt"]) for line in lines} == {("worker", 1, 2)}
    assert sorted(line["text"] for line in lines) == ["aside worker-1 2", "from worker-1 2"]


def test_following_continues_with_the_selected_replicas(shell: Shell, tmp_path: Path) -> None:
    gate = str(tmp_path / "go")
    program = f'print("begun", name)\nwait_for({gate!r})\nprint("ended", name)'
    job = shell.submit_roles(role(program, replicas=3))
    with shell.terminal("logs", "-f", str(job.id), "--index", "2").closing() as terminal:
        terminal.until("begun worker-2")
        Path(gate).touch()
        assert terminal.end() == 0
    assert terminal.lines == ["begun worker-2", "ended worker-2"]


def test_an_unknown_replica_is_an_error(shell: Shell, job: Trial[Any]) -> None:
    done = shell("logs", str(job.id), "--role", "workr")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"Trial {job.id} (mnist) has no role 'workr'.\n  It has: chief, worker." in done.stderr
    done = shell("logs", str(job.id), "--role", "chief", "--index", "1")
    assert done.returncode == 1
    assert "has no replica 1 of chief.\n  It has one replica: 0." in done.stderr
    done = shell("logs", str(job.id), "--index", "2")
    assert "has no replica 2.\n  Replicas are numbered from 0 to 1." in done.stderr
    done = shell("logs", str(job.id), "--attempt", "3")
    assert done.stderr == f"Trial {job.id} (mnist) wrote nothing like that.\n"


def test_matching_lines_can_be_limited_from_either_end(shell: Shell, job: Trial[Any]) -> None:
    output = shell.good("logs", str(job.id), "--search", "worker-[01] 1$", "--regex", "--stdout")
    assert sorted(output.splitlines()) == [
        "worker-0 | from worker-0 1",
        "worker-1 | from worker-1 1",
    ]
    assert shell.good("logs", str(job.id), "--search", "worker", "--count") == "6\n"
    first = shell.good("logs", str(job.id), "--role", "chief", "--head", "1")
    assert first == "from chief-0 1\n"
    assert shell.good("logs", str(job.id), "--role", "chief", "--since", "1h") == first
    output = shell("logs", str(job.id), "--until", "1h").stderr
    assert re.fullmatch(rf"Trial {job.id} \(mnist\) wrote nothing until [\d: -]+\.\n", output), (
        output
    )
    shell.good("run", "--", "echo", "out")
    quiet = shell.newest()
    output = shell("logs", str(quiet.id), "--stderr").stderr
    assert output == f"Trial {quiet.id} (echo) wrote nothing to stderr.\n"
    output = shell("logs", str(quiet.id), "--stderr", "--search", "x").stderr
    assert output == f"Trial {quiet.id} (echo) wrote nothing like that.\n"


def test_many_trials_are_searched_and_each_line_names_its_trial(
    shell: Shell, job: Trial[Any]
) -> None:
    command = ["logs", "--search", "aside worker-1 2"]
    line = f"{job.id} mnist worker-1 attempt 2 | aside worker-1 2\n"
    assert shell.good(*command) == line
    assert shell.good(*command, "-e", job.record.experiment) == line
    [record] = [json.loads(line) for line in shell.good(*command, "--json").splitlines()]
    assert (record["trial"], record["name"], record["text"]) == (
        job.id,
        "mnist",
        "aside worker-1 2",
    )
    assert len(shell.good("logs", "--search", "from", "--head", "2").splitlines()) == 2
    assert shell.good(*command, "--where", f"id = {job.id} and name = 'mnist'") == line
    done = shell(*command, "--where", "hparams.rate < 1")
    assert done.stderr.splitlines()[-1] == ("No trial that matches --where wrote a matching line.")
    assert "No trial has a parameter 'rate'." in done.stderr
    assert "Warning" not in done.stderr
    done = shell("logs", "--search", "nobody wrote this")
    assert (done.stdout, done.stderr) == ("", "No trial wrote a matching line.\n")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ([], "Name a trial: windlass logs 7."),
        (["--search", "a", "-f"], "--follow works for one trial"),
        (["--search", "a", "-n", "3"], "--tail works for one trial"),
        (
            ["--search", "a(", "--regex"],
            "is not a valid regular expression",
        ),
        (["1", "--count"], "--count needs --search"),
        (["1", "--head", "1", "--tail", "1"], "head and tail cannot be used together"),
        (["1", "--since", "soon"], "'soon' is not a time"),
        (["1", "--search", "a", "-e", "mnist"], "Remove --experiment"),
        (["1", "--search", "a", "--where", "id = 1"], "Remove --where"),
        (["--search", "a", "--where", "lr <"], "where: "),
    ],
)
def test_an_invalid_search_is_reported(shell: Shell, options: list[str], why: str) -> None:
    done = shell("logs", *options)
    assert done.returncode != 0
    assert why in done.stderr


def test_interrupting_a_flood_says_that_the_trial_continues(shell: Shell) -> None:
    job = shell.submit_roles(role('while True: print("flood of lines")'))
    try:
        with shell.terminal("logs", "-f", str(job.id)).closing() as terminal:
            terminal.until("flood of lines")
            terminal.type("\x03")
            assert terminal.end() == 130
        assert f"Trial {job.id} (mnist) continues to run." in terminal.raw
        assert "Traceback" not in terminal.raw
    finally:
        job.stop(grace=0).wait(timeout=PATIENCE)
