"""Implements `windlass command`, which runs a small command on the server's machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from windlass.cli.commands.everyday import logs, show, stop
from windlass.cli.options.command_and_shell import (
    command_options,
    print_run_location,
    read_command_options,
)
from windlass.cli.options.help_sections import examples
from windlass.cli.options.lazy_groups import DefaultGroup
from windlass.cli.options.parameters import STATE, WholeNumber, complete_files, json_option

if TYPE_CHECKING:
    from windlass.cli.output.table import Row
    from windlass.model.records import TrialRecord

_EXAMPLES = examples(
    "windlass command nvidia-smi",
    "windlass command -- ls -la",
    "windlass command --trial 7 python -m pytest",
    "windlass command -d --accelerator a100 ./burn-in",
    "windlass command ls",
)


@click.group(
    cls=DefaultGroup,
    default="run",
    short_help="Run a command outside of trials: nvidia-smi, df -h.",
    epilog=_EXAMPLES,
)
def command() -> None:
    """Run a command on the server's machine, outside of trials.

    Windlass records the command with its output and exit code, but does not list it among trials.
    By default, a command reserves no resources, so it never waits. `windlass command WORDS` is
    short for `windlass command run WORDS`.
    """


@command.command(
    name="run",
    short_help="Run a command and show its output.",
    context_settings={"allow_interspersed_args": False},
    epilog=examples("windlass command run nvidia-smi"),
)
@command_options
@click.option("-d", "--detach", is_flag=True, help="Return at once.")
@click.argument(
    "words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND [ARGS]...",
    shell_complete=complete_files,
)  # fmt: skip
def run(words: tuple[str, ...], detach: bool, **options: Any) -> int:
    """Run a command in an empty folder or in a trial's code, and show its output.

    windlass exits with the command's exit code. Ctrl-C stops the command.
    """
    from windlass.authoring.prepare.command_and_shell import draft_command
    from windlass.cli.commands.everyday.run import report_end
    from windlass.cli.options.python_to_options import errors_as_options
    from windlass.client.client import default_client
    from windlass.client.terminal.view import View
    from windlass.client.terminal.watch_trial import run_and_watch

    client = default_client()
    with errors_as_options():
        draft = draft_command(client, words, read_command_options(options))
        print_run_location(client, draft.request.recipe.code_of)
        if detach:
            submitted = client.submit(draft)
            print(f"Command {submitted.id} ({submitted.name}) is submitted.")
            print(f"  windlass logs {submitted.id} -f")
            return 0
        with View() as view:
            ran, end = run_and_watch(client, draft, view)
    return report_end(ran, end, str)


@command.command(
    name="ls",
    short_help="List commands, newest first.",
    epilog=examples(
        "windlass command ls --state failed",
    ),
)
@click.option(
    "-s", "--state", "states", multiple=True, type=STATE, help="Commands in a state; repeatable."
)
@click.option(
    "-n", "--limit", type=WholeNumber(min=1), default=20, metavar="N",
    help="Maximum number of rows (20).",
)  # fmt: skip
@json_option
def list_commands(states: tuple[str, ...], limit: int, as_json: bool) -> None:
    """List commands, newest first, with their state and outcome."""
    import time

    from windlass.cli.output.json import print_json_array
    from windlass.cli.output.table import Column, print_table
    from windlass.cli.output.text import print_message
    from windlass.client.client import default_client

    commands = default_client().list_commands(
        state=list(states) or None, sort_by="-id", limit=limit
    )
    if as_json:
        print_json_array(run.record for run in commands)
        return
    records = [run.record for run in commands]
    if not records:
        print_message(
            "No command matches." if states else "No command was run yet: windlass command df -h"
        )
        return
    columns = [
        Column("ID", is_number=True),
        Column("COMMAND", shrinks=True),
        Column("STATE"),
        Column("EXIT", is_number=True),
        Column("TOOK", is_number=True),
        Column("CREATED", is_number=True),
    ]
    print_table(columns, [_row(record, time.time()) for record in records])


def _row(record: TrialRecord, now: float) -> Row:
    from windlass.cli.output.table import Cell
    from windlass.cli.output.text import clean, format_ago, state_colour
    from windlass.comparison.settings import command_of
    from windlass.display.trial_cells import format_run_time

    return [
        str(record.id),
        clean(command_of(record.spec.roles[0].executable)),
        Cell(record.state.value, state_colour(record.state)),
        "-" if record.exit_code is None else str(record.exit_code),
        format_run_time(record, now),
        Cell(format_ago(record.created, now), "dim"),
    ]


# These trial commands also accept the ids of commands.
command.add_command(logs.command, "logs")
command.add_command(show.command, "show")
command.add_command(stop.command, "stop")
