"""The tables of docs/guides/jobs.md agree with the code."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import shlex
from pathlib import Path

import pytest

import windlass as wl
from windlass.authoring.checks.command_line import command_line, dropped_names
from windlass.engine.restart_policy import exit_verdict
from windlass.frameworks import build_cluster, find_framework, framework_names
from windlass.model.job import CleanPolicy, JobSpec, ProcessCall, RestartPolicy, Role
from windlass.model.status import ConditionType

PAGE = Path(__file__).parent.parent / "docs" / "guides" / "jobs.md"
NAME = re.compile(r"`([^`]*)`")
CODES = {
    "exit 0": (0,),
    "exit 1-127": (1, 2, 126, 127),
    "exit 128-255": (128, 130, 137, 143, 255),
    "no exit code": (None,),
}


def table(first: str) -> list[list[str]]:
    """The rows of the table whose first heading begins so, with the headings."""
    lines = PAGE.read_text().splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(f"| {first}"))
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        if not line.startswith("|---"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def names(cell: str) -> list[str]:
    return NAME.findall(cell)


def test_the_table_of_restart_policies() -> None:
    headings, *rows = table("`restart_policy` | exit")
    assert [names(row[0])[0] for row in rows] == [policy.value for policy in RestartPolicy]
    for row in rows:
        policy = RestartPolicy(names(row[0])[0])
        for heading, cell in zip(headings[1:], row[1:], strict=True):
            assert {exit_verdict(policy, code).value for code in CODES[heading]} == {cell}


def test_the_table_of_restart_scopes_services_and_roles() -> None:
    _, *rows = table("`framework` | `restart_scope`")
    rows_by_name = {(names(row[0]) or [""])[0]: row for row in rows}
    assert set(rows_by_name) == {"", *framework_names()}
    for name, (_, scope, services, roles) in rows_by_name.items():
        framework = find_framework(name)
        assert [framework.restart_scope.value] == names(scope)
        assert list(framework.services) == names(services)
        assert list(framework.roles) == names(roles)
        assert framework.takes_services == ("any service" in roles)
        assert framework.default_role == ("worker" if name else "main")


def test_the_table_of_clean_policies() -> None:
    _, *rows = table("`clean_policy` | when")
    assert [names(row[0])[0] for row in rows] == [policy.value for policy in CleanPolicy]


def test_the_table_of_conditions() -> None:
    _, *rows = table("condition |")
    assert [names(row[0])[0] for row in rows] == [kind.value for kind in ConditionType]


def test_the_table_of_fields() -> None:
    _, *rows = table("field | default")
    first_names = [names(row[0])[0] for row in rows]
    parameters = inspect.signature(wl.Job).parameters
    assert set(first_names) == set(parameters) - {"executable"}
    for row in rows:
        default = parameters[names(row[0])[0]].default
        if row[1] in ("1", "6", "0") and default is not None:
            assert row[1] == str(default)


@pytest.mark.parametrize("framework", framework_names())
def test_the_table_of_environments(framework: str) -> None:
    _, *rows = table("framework | variables")
    names_by_role = {names(row[0])[0]: names(row[1]) for row in rows}
    role = Role(executable=ProcessCall(argv=("true",)), name="worker", replicas=2)
    cluster = build_cluster(JobSpec(roles=(role,)), {}, "127.0.0.1:1")
    environment = find_framework(framework).environment(cluster, cluster.members[0])
    assert names_by_role[framework] == list(environment)


@pytest.mark.usefixtures("home", "project")
def test_the_table_of_variables_of_every_replica() -> None:
    _, *rows = table("in every replica")
    documented = {name for row in rows for name in names(row[0])}
    show = ["python", "-c", "import json, os; print(json.dumps(dict(os.environ)))"]
    trial = wl.Job(wl.Command(show), replicas=2, executor=wl.Local(cpus=0.1)).submit().wait()
    assert trial.state == "SUCCEEDED", trial.message
    [line] = trial.logs(index=0)
    # Remove variables of the shell that runs the tests.
    variables = dict(json.loads(line)).items() - os.environ.items()
    variable_names = {name for name, _ in variables if name.startswith("WINDLASS_")}
    internal = {
        "WINDLASS_REPLICA",
        "WINDLASS_CLOUDPICKLE",
        "WINDLASS_CHECKPOINTS",
        "WINDLASS_GIVEN",
        "WINDLASS_IMPORTS",
        "WINDLASS_STREAMS",
    }
    assert variable_names - internal == documented - {
        "WINDLASS_CHECKPOINT"
    }  # no checkpoint was saved


def test_the_table_of_arguments() -> None:
    _, *rows = table("in the mapping")
    for row in rows:
        mapping = ast.literal_eval("{" + names(row[0])[0] + "}")
        assert shlex.join(command_line(mapping)) == " ".join(names(row[1]))
        assert bool(dropped_names(mapping)) == ("warning" in row[1])
