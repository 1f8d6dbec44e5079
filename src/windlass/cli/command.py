"""`windlass command`: something small on the server's machine, beside the trials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from windlass.cli import logs, show, stop
from windlass.cli.asides import aside_of, aside_options, tell_where
from windlass.cli.groups import DefaultGroup
from windlass.cli.parameters import STATE, WholeNumber, complete_files, json_option

if TYPE_CHECKING:
    from windlass.cli.tables import Row
    from windlass.model.records import TrialRecord

_EXAMPLES = """Examples:

\b
  windlass command nvidia-smi
  windlass command -- ls -la
  windlass command --trial 7 python -m pytest
  windlass command -d --accelerator a100 ./burn-in
  windlass command ls
"""


@click.group(
    cls=DefaultGroup,
    default="run",
    short_help="Run a command beside the trials: nvidia-smi, df -h.",
    epilog=_EXAMPLES,
)
def command() -> None:
    """Run a command on the server's machine, beside the trials.

    It is recorded with its output and exit code, and is in no list of trials. Nothing is set
    aside for it unless asked for, so it never waits. Without a name of a command below, what
    follows is run.
    """


@command.command(
    name="run",
    short_help="Run a command, and show what it prints.",
    context_settings={"allow_interspersed_args": False},
)
@aside_options
@click.option("-d", "--detach", is_flag=True, help="Do not wait for it.")
@click.argument(
    "words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND [ARGS]...",
    shell_complete=complete_files,
)  # fmt: skip
def run(words: tuple[str, ...], detach: bool, **given: Any) -> int:
    """Run a command in an empty folder, or in somebody's code, and show what it prints.

    This ends with its exit code. Ctrl-C stops it.
    """
    from windlass.authoring.asides import draft_command
    from windlass.cli.run import conclude
    from windlass.cli.wording import in_options
    from windlass.client.session import default_client
    from windlass.client.view import View
    from windlass.client.watching import run_and_watch

    client = default_client()
    with in_options():
        draft = draft_command(client, words, aside_of(given))
        tell_where(client, draft.request.recipe.code_of)
        if detach:
            submitted = client.submit(draft)
            print(f"Command {submitted.id} ({submitted.name}) is submitted.")
            print(f"  windlass logs {submitted.id} -f")
            return 0
        with View() as view:
            ran, end = run_and_watch(client, draft, view)
    return conclude(ran, end, str)


@command.command(name="ls", short_help="List commands, newest first.")
@click.option("-s", "--state", "states", multiple=True, type=STATE, help="Only those in a state.")
@click.option(
    "-n", "--limit", type=WholeNumber(min=1), default=20, metavar="N",
    help="At most so many (20).",
)  # fmt: skip
@json_option
def list_them(states: tuple[str, ...], limit: int, as_json: bool) -> None:
    """List commands, newest first."""
    import time

    from windlass.cli.machine import print_json_array
    from windlass.cli.tables import Column, print_table
    from windlass.cli.text import say
    from windlass.client.session import default_client

    found = default_client().list_commands(state=list(states) or None, sort_by="-id", limit=limit)
    if as_json:
        print_json_array(run.record for run in found)
        return
    records = [run.record for run in found]
    if not records:
        say("No command matches." if states else "No command was run yet: windlass command df -h")
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
    from windlass.cli.ls import how_long
    from windlass.cli.tables import Cell
    from windlass.cli.text import clean, format_ago, state_colour
    from windlass.comparing.settings import command_of

    return [
        str(record.id),
        clean(command_of(record.spec.roles[0].executable)),
        Cell(record.state.value, state_colour(record.state)),
        "-" if record.exit_code is None else str(record.exit_code),
        how_long(record, now),
        Cell(format_ago(record.created, now), "dim"),
    ]


# They take the id of a command as that of any trial.
command.add_command(logs.command, "logs")
command.add_command(show.command, "show")
command.add_command(stop.command, "stop")
