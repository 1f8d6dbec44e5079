"""`windlass queue`: who waits for room, why, and in which order."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.groups import Group
from windlass.cli.parameters import TRIAL_ID, WholeNumber, json_option

if TYPE_CHECKING:
    from windlass.cli.tables import Row
    from windlass.client.trials import Trial


@click.group(cls=Group, invoke_without_command=True, short_help="List who waits for room, and why.")
@click.option(
    "-n",
    "--limit",
    type=WholeNumber(min=1),
    default=None,
    metavar="N",
    help="At most so many (all).",
)
@json_option
@click.pass_context
def command(ctx: click.Context, limit: int | None, as_json: bool) -> None:
    """List the trials that wait for room, the first to be let in first.

    The higher priority goes first, then the older. A small trial may pass a large one only if
    that does not delay it.
    """
    if ctx.invoked_subcommand is not None:
        return
    from windlass.cli.machine import print_json_array
    from windlass.cli.tables import Cell, Column, print_table
    from windlass.cli.text import clean, say
    from windlass.client.session import default_client
    from windlass.model.quantities import format_duration

    found = default_client().list_queue(limit=limit)
    if as_json:
        print_json_array(
            {"position": e.position, "why": e.why, "ahead": e.ahead, "trial": e.trial.record}
            for e in found
        )
        return
    now = time.time()
    rows: list[Row] = [
        [
            str(entry.position),
            str(entry.trial.id),
            clean(entry.trial.name),
            str(entry.trial.priority),
            format_duration(max(now - entry.trial.created, 0)),
            Cell(clean(_why(entry.why, entry.ahead)), "dim"),
        ]
        for entry in found
    ]
    if not rows:
        say("Nobody waits.")
        return
    columns = [
        Column("#", is_number=True), Column("ID", is_number=True), Column("NAME", shrinks=True),
        Column("PRIORITY", is_number=True), Column("AGE", is_number=True),
        Column("WAITS FOR", shrinks=True),
    ]  # fmt: skip
    print_table(columns, rows)


@command.command(short_help="Move a trial ahead of another.")
@click.argument("trial_id", type=TRIAL_ID, metavar="ID")
@click.option(
    "--ahead-of",
    "other",
    type=TRIAL_ID,
    required=True,
    metavar="ID",
    help="Whom to stand ahead of.",
)
def move(trial_id: int, other: int) -> int:
    """Have a trial that waits stand right ahead of another that does, with its priority."""
    from windlass.cli.steering import steer

    return steer([trial_id], lambda trial: _move(trial, other))


def _move(trial: Trial[Any], other: int) -> str:
    from windlass.cli.steering import called

    before = trial.priority
    trial.move_ahead_of(other)
    told = f", with the priority {trial.priority}" if trial.priority != before else ""
    waits = f": {trial.message}" if trial.state == "QUEUED" and trial.message else ""
    return f"{called(trial)} is right ahead of trial {other}{told}{waits}."


def _why(why: str, ahead: int | None) -> str:
    """What it needs, and who is ahead, which some of the reasons say by themselves."""
    if ahead is None or "ahead" in why:
        return why.replace("the one ahead", f"trial {ahead}")
    return f"{why}; after trial {ahead}"
