"""`windlass show` of jobs with several replicas, in a terminal and piped."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cli.shells import Shell
from cli.terminals import PATIENCE, eventually
from job_requests import role
from windlass.client.resources.trial.trial import Trial
from windlass.model.job import RestartPolicy, RestartScope
from windlass.model.status import Pod

# Once all of them run: at first one is killed, then one fails, then all succeed.
UNLUCKY = """
print("hello from", name, "attempt", attempt)
touch(os.path.join(STAGE, f"{name}.{attempt}"))
for each in range(4):
    wait_for(os.path.join(STAGE, f"{role}-{each}.{attempt}"))
if attempt == 3:
    sys.exit(0)
if (index, attempt) == (1, 1):
    os.kill(os.getpid(), signal.SIGKILL)
if (index, attempt) == (2, 2):
    sys.exit("bad luck")
signal.pause()
"""


@pytest.fixture(scope="module")
def unlucky(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> Trial[Any]:
    """Four workers that restart together, twice."""
    program = f"STAGE = {str(tmp_path_factory.mktemp('stage'))!r}\n{UNLUCKY}"
    workers = role(program, replicas=4, restart_policy=RestartPolicy.ON_FAILURE)
    trial = shell.submit_roles(workers, restart_scope=RestartScope.JOB, backoff_limit=3)
    return trial.wait(timeout=PATIENCE)


def timeline(shown: str) -> list[tuple[str, str]]:
    """The marks and texts of the timeline on a page."""
    section = shown.replace("\r", "").partition("Timeline\n")[2].partition("\n\n")[0]
    rows = [re.fullmatch(r"  (\S.{7,}?|\s+)  (\S)  (.*)", line) for line in section.splitlines()]
    assert all(rows), section
    return [(row[2], row[3]) for row in rows if row]


EVERYBODY = "4 replicas (worker-0 … worker-3)"
STORY = [
    ("○", "created"),
    ("●", f"running: {EVERYBODY}"),
    ("✗", "worker-1 was killed by SIGKILL (exit code 137)"),
    ("↻", "restart 1 of 3: all replicas"),
    ("│", "3 replicas (worker-0, worker-2, worker-3) stopped"),
    ("●", f"running: {EVERYBODY}, attempt 2"),
    ("✗", "worker-2 failed with exit code 1"),
    ("↻", "restart 2 of 3: all replicas"),
    ("│", "3 replicas (worker-0, worker-1, worker-3) stopped"),
    ("●", f"running: {EVERYBODY}, attempt 3"),
    ("✓", f"{EVERYBODY} succeeded"),
    ("✓", "succeeded"),
]


def test_restarts_are_shown_as_a_timeline(shell: Shell, unlucky: Trial[Any]) -> None:
    shown = shell.good("show", str(unlucky.id))
    assert timeline(shown) == STORY
    assert "replicas     4 (worker)" in shown
    assert "restarts     2 of up to 3 (OnFailure, all together)" in shown
    table = shown.partition("Replicas\n")[2].partition("\n\n")[0].splitlines()
    assert table[0].split()[:4] == ["REPLICA", "ATTEMPT", "PHASE", "EXIT"]
    assert [row.split()[:4] for row in table[1:]] == [
        [f"worker-{i}", "3", "Succeeded", "0"] for i in range(4)
    ]
    assert "\x1b" not in shown


def test_a_terminal_has_colours_and_no_line_is_wider(shell: Shell, unlucky: Trial[Any]) -> None:
    terminal = shell.terminal("show", str(unlucky.id), columns=80)
    assert terminal.end() == 0
    assert timeline(terminal.text) == STORY
    assert "\x1b[31m✗" in terminal.raw
    assert "\x1b[33m↻" in terminal.raw
    drawn = terminal.text.partition("Replicas")[2].replace("\r", "").splitlines()
    assert max(map(len, drawn)) <= 80


def test_a_narrow_terminal_breaks_lines_under_their_text(shell: Shell, unlucky: Trial[Any]) -> None:
    terminal = shell.terminal("show", str(unlucky.id), columns=48, NO_COLOR="1")
    assert terminal.end() == 0
    drawn = terminal.text.partition("Timeline")[2].replace("\r", "").splitlines()
    assert max(map(len, drawn)) <= 48
    assert any(re.match(r" {10,}│  \S", line) for line in drawn)
    assert "\x1b[3" not in terminal.raw


def test_a_terminal_without_unicode_gets_plain_marks(shell: Shell, unlucky: Trial[Any]) -> None:
    shown = shell.good("show", str(unlucky.id), PYTHONIOENCODING="ascii")
    timeline_text = shown.partition("Timeline")[2]
    assert timeline_text.isascii()
    assert "\\u" not in timeline_text
    assert "@  restart 1 of 3: all replicas" in timeline_text
    assert "*  running: 4 replicas (worker-0 ... worker-3)" in timeline_text


def test_a_failure_shows_its_cause_with_its_last_lines_only(shell: Shell, tmp_path: Path) -> None:
    program = f"""
STAGE = {str(tmp_path)!r}
if index != 1:
    print("the others say much")
    touch(os.path.join(STAGE, name))
    signal.pause()
for each in (0, 2):
    wait_for(os.path.join(STAGE, f"{{role}}-{{each}}"))
print("loss is nan")
sys.exit(3)
"""
    trial = shell.submit_roles(role(program, replicas=3)).wait(timeout=PATIENCE)
    eventually(
        lambda: all(attempt.ended for attempt in trial.refresh().attempts), "nothing of it runs"
    )
    shown = shell.good("show", str(trial.id))
    head = shown.splitlines()[:2]
    assert head == [
        f"Trial {trial.id}  mnist  FAILED",
        "  worker-1 (attempt 1) failed with exit code 3",
    ]
    assert ("✗", "failed: worker-1 (attempt 1) failed with exit code 3") in timeline(shown)
    cause = shown.partition("Last lines of worker-1, attempt 1\n")[2]
    assert cause.splitlines() == ["  loss is nan"]
    table = shown.partition("Replicas\n")[2].partition("\n\n")[0].splitlines()[1:]
    assert table[1].split()[:4] == ["worker-1", "1", "Failed", "3"]
    assert table[1].endswith("loss is nan")
    assert [row.split()[2] for row in table] == ["Stopped", "Failed", "Stopped"]


NODE = "ip-10-0-117-23.eu-central-1.compute.internal"


@pytest.fixture(scope="module")
def in_pods(module_shell: Shell) -> Trial[Any]:
    """Two workers of a cluster with long node names, as in clouds."""
    trial = module_shell.submit_roles(role("pass", replicas=2)).wait(timeout=PATIENCE)
    module_shell.good("server", "stop")
    with sqlite3.connect(module_shell.home / "windlass.db") as database:
        for index in range(2):
            name = f"wl-{trial.id}-0123abcd-worker-{index}"
            pod = msgspec.json.encode(Pod(namespace="research", name=f"{name}-1"))
            database.execute(
                'UPDATE attempts SET node = ?, address = ?, pod = ? WHERE "index" = ?',
                (NODE, f"{name}.research:29500", pod.decode(), index),
            )
    database.close()
    module_shell.good("server", "start")
    return trial


def test_node_names_are_shown_in_full_in_a_narrow_terminal(
    module_shell: Shell, in_pods: Trial[Any]
) -> None:
    terminal = module_shell.terminal("show", str(in_pods.id), columns=80, NO_COLOR="1")
    assert terminal.end() == 0
    table, places = terminal.text.replace("\r", "").split("\nReplicas\n")[1].split("\n\n")[:2]
    assert table.splitlines()[0].split() == ["REPLICA", "ATTEMPT", "PHASE", "EXIT", "TOOK"]
    base = f"wl-{in_pods.id}-0123abcd-worker"
    assert places.splitlines() == [
        "Pods",
        f"  worker-0  pod   {base}-0-1",
        f"            node  {NODE}",
        f"            at    {base}-0.research:29500",
        f"  worker-1  pod   {base}-1-1",
        f"            node  {NODE}",
        f"            at    {base}-1.research:29500",
    ]


def test_node_names_are_part_of_the_table_if_they_fit(
    module_shell: Shell, in_pods: Trial[Any]
) -> None:
    terminal = module_shell.terminal("show", str(in_pods.id), columns=200, NO_COLOR="1")
    assert terminal.end() == 0
    for shown in (terminal.text, module_shell.good("show", str(in_pods.id))):
        table = shown.replace("\r", "").split("\nReplicas\n")[1].split("\n\n")[0].splitlines()
        assert table[0].split()[-3:] == ["ADDRESS", "NODE", "POD"]
        assert table[2].split()[-2:] == [NODE, f"wl-{in_pods.id}-0123abcd-worker-1-1"]
        assert "\nPods" not in shown


def test_a_failed_script_shows_its_last_lines_and_no_table(shell: Shell) -> None:
    shell.write("short.py", "import sys; print('last words'); sys.exit(4)")
    assert shell("run", "short.py").returncode == 4
    shown = shell.good("show", str(shell.newest().id))
    assert [text for _, text in timeline(shown)] == ["created", "running", "failed: exit code 4"]
    assert "Last lines\n  last words\n" in shown
    assert "Attempts" not in shown
    assert "Replicas" not in shown


def test_a_tip_for_a_submitted_command_names_options(shell: Shell) -> None:
    (shell.folder.parent / "shared").mkdir()
    (shell.folder.parent / "shared/x.txt").touch()
    shell.write("reads.py", "open('../shared/x.txt')")
    assert shell("run", "reads.py").returncode == 1
    shown = shell.good("show", str(shell.newest().id))
    assert "Bring it along with --volume ../shared=../shared\n" in shown
    assert shell("run", "--volume", "../shared=../shared", "reads.py").returncode == 0


def test_the_deadline_of_a_job_has_the_same_name_as_in_its_error(shell: Shell) -> None:
    done = shell("run", "--timeout", "100ms", "--", "sleep", "600")
    assert "ran out of time (deadline 100ms)" in done.stderr
    shown = shell.good("show", str(shell.newest().id))
    mark, text = timeline(shown)[-1]
    assert (mark, text[:40]) == ("✗", "failed: ran out of time (deadline 100ms)")
    assert f"{text.removeprefix('failed: ')}." in done.stderr
    assert "  deadline     100ms\n" in shown


def test_attempts_of_a_retried_trial_are_listed_with_reasons(shell: Shell) -> None:
    shell.write("again.py", """
        import os, sys
        sys.exit(0 if os.environ["WINDLASS_ATTEMPT"] == "2" else 1)
    """)  # fmt: skip
    shell.good("run", "--retries", "2", "again.py")
    shown = shell.good("show", str(shell.newest().id))
    assert [text for _, text in timeline(shown)] == [
        "created", "running", "failed with exit code 1", "restart 1 of 2", "running, attempt 2",
        "succeeded",
    ]  # fmt: skip
    rows = shown.partition("Attempts\n")[2].partition("\n\n")[0].splitlines()
    assert [row.split()[:3] for row in rows[1:]] == [["1", "Failed", "1"], ["2", "Succeeded", "0"]]
    assert rows[1].endswith("exit code 1")


def test_json_is_complete(shell: Shell, unlucky: Trial[Any]) -> None:
    record = shell.json("show", str(unlucky.id))
    assert len(record["attempts"]) == 12
    assert {"conditions", "events", "spec", "cause", "restarts"} <= set(record)
    assert "ReplicaRestarting" in [event["reason"] for event in record["events"]]


def test_summaries_of_metrics_are_a_table(shell: Shell) -> None:
    program = """
import windlass as wl
for step in range(3):
    wl.report(step, loss=1 / (step + 1), lr=1e-05)
wl.report(2, group="validation", loss=float("nan"))
"""
    trial = shell.submit_roles(role(program)).wait(timeout=PATIENCE)
    shown = shell.good("show", str(trial.id))
    table = shown.partition("\nMetrics\n")[2].partition("\n\n")[0]
    assert table.splitlines() == [
        "  METRIC               LAST       MIN    MAX  STEP  COUNT",
        "  loss             0.333333  0.333333      1     2      3",
        "  lr                  1e-05     1e-05  1e-05     2      3",
        "  validation/loss       nan                      2      1",
    ]
    record = json.loads(shell.good("show", str(trial.id), "--json"))
    assert record["metrics"]["loss"]["max"] == 1.0
    assert record["metrics"]["validation/loss"]["last"] is None
    assert record["metrics"]["validation/loss"]["odd"] == {"last": "nan"}
