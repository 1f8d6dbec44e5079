"""Implements `windlass tasks`, which lists every attempt of a trial's replicas."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.options.parameters import TRIAL_ID, json_option

if TYPE_CHECKING:
    from windlass.cli.output.table import Row
    from windlass.client.resources.trial.queue import Task


@click.command(
    short_help="List the replicas of a trial with their resources.",
    epilog=examples(
        "windlass tasks 7",
    ),
)
@click.argument("trial_id", type=TRIAL_ID, metavar="ID")
@json_option
def command(trial_id: int, as_json: bool) -> None:
    """List all attempts of a trial's replicas, with their resources, machine and outcome."""
    from windlass.cli.output.json import print_json_array
    from windlass.cli.output.table import Column, print_table
    from windlass.cli.output.text import print_message
    from windlass.client.client import default_client

    tasks = default_client().get_trial(trial_id).list_tasks()
    if as_json:
        print_json_array(tasks)
        return
    now = datetime.now(timezone.utc)
    rows = [_row(task, now) for task in tasks]
    if not rows:
        print_message(f"No replica of trial {trial_id} was ever started.")
        return
    columns = [
        Column("TASK"), Column("ATTEMPT", is_number=True), Column("STATE"),
        Column("CPUS", is_number=True), Column("MEMORY", is_number=True), Column("DEVICES"),
        Column("NODE", shrinks=True), Column("ADDRESS"), Column("PID", is_number=True),
        Column("TOOK", is_number=True), Column("EXIT"),
    ]  # fmt: skip
    print_table(columns, rows)


def _row(task: Task, now: datetime) -> Row:
    from windlass.cli.output.text import clean
    from windlass.model.text.quantities import format_duration, format_size

    took = ""
    if task.started is not None:
        took = format_duration(((task.ended or now) - task.started).total_seconds())
    code = "" if task.exit_code is None else str(task.exit_code)
    return [
        task.name,
        str(task.attempt or ""),
        task.state,
        f"{task.cpus:g}",
        format_size(task.memory) if task.memory else "",
        ",".join(map(str, task.devices)),
        clean(task.node),
        task.address,
        "" if task.pid is None else str(task.pid),
        took,
        f"{code} ({task.signal})" if task.signal else code,
    ]
