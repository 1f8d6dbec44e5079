"""Implements `windlass queue`, which lists waiting trials in order and says why each one waits."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.options.lazy_groups import Group
from windlass.cli.options.parameters import TRIAL_ID, WholeNumber, json_option

if TYPE_CHECKING:
    from windlass.cli.output.table import Row
    from windlass.client.resources.trial.trial import Trial


@click.group(
    cls=Group,
    invoke_without_command=True,
    short_help="List waiting trials and why each one waits.",
    epilog=examples("windlass queue", "windlass queue move 9 --ahead-of 7"),
)
@click.option(
    "-n",
    "--limit",
    type=WholeNumber(min=1),
    default=None,
    metavar="N",
    help="Maximum number of rows (all).",
)
@json_option
@click.pass_context
def command(ctx: click.Context, limit: int | None, as_json: bool) -> None:
    """List waiting trials in the order in which they will start.

    Trials with a higher priority start first, and older trials come first among equals. A small
    trial may overtake a large one if this does not delay the large one.
    """
    if ctx.invoked_subcommand is not None:
        return
    from windlass.cli.output.json import print_json_array
    from windlass.cli.output.table import Cell, Column, print_table
    from windlass.cli.output.text import clean, print_message
    from windlass.client.client import default_client
    from windlass.model.text.quantities import format_duration

    entries = default_client().list_queue(limit=limit)
    if as_json:
        print_json_array(
            {"position": e.position, "why": e.why, "ahead": e.ahead, "trial": e.trial.record}
            for e in entries
        )
        return
    now = time.time()
    rows: list[Row] = [
        [
            str(entry.position),
            str(entry.trial.id),
            clean(entry.trial.name),
            str(entry.trial.priority),
            format_duration(max(now - entry.trial.record.created, 0)),
            Cell(clean(_why(entry.why, entry.ahead)), "dim"),
        ]
        for entry in entries
    ]
    if not rows:
        print_message("No trial is waiting.")
        return
    columns = [
        Column("#", is_number=True), Column("ID", is_number=True), Column("NAME", shrinks=True),
        Column("PRIORITY", is_number=True), Column("AGE", is_number=True),
        Column("WAITS FOR", shrinks=True),
    ]  # fmt: skip
    print_table(columns, rows)


@command.command(
    short_help="Move a trial ahead of another.",
    epilog=examples(
        "windlass queue move 9 --ahead-of 7",
    ),
)
@click.argument("trial_id", type=TRIAL_ID, metavar="ID")
@click.option(
    "--ahead-of",
    "other",
    type=TRIAL_ID,
    required=True,
    metavar="ID",
    help="The trial to overtake.",
)
def move(trial_id: int, other: int) -> int:
    """Move a waiting trial ahead of another trial, and give it the same priority."""
    from windlass.cli.options.for_each_trial import change_trials

    return change_trials([trial_id], lambda trial: _move(trial, other))


def _move(trial: Trial[Any], other: int) -> str:
    from windlass.cli.options.for_each_trial import trial_label

    before = trial.priority
    trial.move_ahead_of(other)
    priority_note = f", with the priority {trial.priority}" if trial.priority != before else ""
    waits = f": {trial.message}" if trial.state == "QUEUED" and trial.message else ""
    return f"{trial_label(trial)} is now directly ahead of trial {other}{priority_note}{waits}."


def _why(why: str, ahead: int | None) -> str:
    """Return why a trial waits, and the trial directly ahead of it in the queue."""
    if ahead is None or "ahead" in why:
        return why.replace("the one ahead", f"trial {ahead}")
    return f"{why}; after trial {ahead}"
