"""Implements `windlass shell`, which opens a terminal on the server's machine."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options.command_and_shell import (
    command_options,
    print_run_location,
    read_command_options,
)
from windlass.cli.options.help_sections import examples
from windlass.cli.options.last_trial import steps_back
from windlass.cli.options.lazy_groups import DefaultGroup
from windlass.cli.options.parameters import TRIAL_ID, WholeNumber, json_option

if TYPE_CHECKING:
    from windlass.cli.output.table import Row
    from windlass.client.resources.shell import Shell
    from windlass.model.records import TrialRecord

_EXAMPLES = examples(
    "windlass shell 7",
    "windlass shell 7 -- python -i",
    "windlass shell --code --accelerator a100",
    "echo 'pip list' | windlass shell 7",
    "windlass shell ls",
    "windlass shell attach 9",
)


@click.group(
    cls=DefaultGroup,
    default="open",
    short_help="Open a terminal in the code and environment of a trial.",
    epilog=_EXAMPLES,
)
def command() -> None:
    """Open a terminal on the server's machine, in a trial's code and environment.

    Press Ctrl-] twice to detach. The shell runs until it exits or is killed. `windlass shell 7`
    is short for `windlass shell open 7`.
    """


@command.command(
    name="open",
    short_help="Open a shell and attach to it.",
    epilog=examples(
        "windlass shell open 7",
        "windlass shell open --code -- python -i",
    ),
)
@command_options
@click.option("-d", "--detach", is_flag=True, help="Do not attach to the shell.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[TRIAL] [-- COMMAND [ARGS]...]")
@click.pass_context
def open_shell(ctx: click.Context, /, words: tuple[str, ...], detach: bool, **options: Any) -> int:
    """Open a shell in a copy of a trial's code or in an empty folder, and attach to it.

    The shell runs COMMAND, or $SHELL by default. If the standard input is not a terminal, the shell
    reads commands from it. windlass exits with the shell's exit code.
    """
    from windlass.authoring.prepare.command_and_shell import draft_shell
    from windlass.cli.options.python_to_options import errors_as_options
    from windlass.client.client import default_client
    from windlass.client.resources.shell import Shell
    from windlass.client.terminal.attach_shell import size_here

    if words and (words[0].isdecimal() or steps_back(words[0]) is not None):
        if options["trial"] is not None:
            raise click.UsageError("Name one trial: as the first word, or with --trial.", ctx)
        options["trial"], words = TRIAL_ID.convert(words[0], None, ctx), words[1:]
    has_terminal = detach or os.isatty(sys.stdin.fileno())
    client = default_client()
    with errors_as_options():
        how = read_command_options(options)
        draft = draft_shell(
            client, list(words) or None, how, has_terminal=has_terminal, size=size_here()
        )
        shell = Shell(client.transport, client.submit(draft).record)
    print_run_location(client, shell.record.recipe.code_of)
    if detach:
        print(f"Shell {shell.id} is open.")
        print(f"  windlass shell attach {shell.id}")
        return 0
    return _attach(shell)


@command.command(
    name="attach",
    short_help="Attach to a running shell.",
    epilog=examples(
        "windlass shell attach 9",
    ),
)
@click.argument("shell_id", type=WholeNumber(1), metavar="[ID]", required=False)
def attach(shell_id: int | None) -> int:
    """Attach to a running shell, by default to the newest.

    Several users can attach to the same shell. All see the same screen, and all can type.
    """
    from windlass.client.client import default_client
    from windlass.model.errors import Conflict, NotFound

    client = default_client()
    if shell_id is None:
        newest = next(client.list_shells(state="RUNNING", sort_by="-id", limit=1), None)
        if newest is None:
            raise NotFound("No shell is running.", hint="Open one: windlass shell")
        return _attach(newest)
    shell = client.get_shell(shell_id)
    if shell.is_finished:
        raise Conflict(
            f"Shell {shell_id} has ended: {_end_of(shell.record)}.",
            hint=f"See its output: windlass shell show {shell_id}",
        )
    return _attach(shell)


@command.command(
    name="kill",
    short_help="Kill shells and the processes in them.",
    epilog=examples(
        "windlass shell kill 9",
    ),
)
@click.argument("shell_ids", type=WholeNumber(1), nargs=-1, required=True, metavar="ID...")
def kill(shell_ids: tuple[int, ...]) -> int:
    """Kill shells and the processes in them."""
    from windlass.cli.output.text import print_error
    from windlass.client.client import default_client
    from windlass.model.errors import NotFound

    client = default_client()
    code = 0
    for shell_id in dict.fromkeys(shell_ids):
        try:
            shell = client.get_shell(shell_id)
        except NotFound as error:
            print_error(str(error))
            code = 1
            continue
        if shell.is_finished:
            print(f"Shell {shell_id} had already ended: {_end_of(shell.record)}.", flush=True)
            continue
        shell.kill()
        print(f"Shell {shell_id} is killed.", flush=True)
    return code


@command.command(
    name="show",
    short_help="Print the output of a shell as plain text.",
    epilog=examples(
        "windlass shell show 9",
    ),
)
@click.argument("shell_id", type=WholeNumber(1), metavar="ID")
@click.option("--raw", is_flag=True, help="Keep all terminal escape sequences.")
def show(shell_id: int, raw: bool) -> None:
    """Print a shell's output. Windlass keeps the last 16 MB."""
    from windlass.client.client import default_client
    from windlass.model.text.terminal_screen import plain_text

    shown = b"".join(default_client().get_shell(shell_id).output())
    if raw:
        sys.stdout.buffer.write(shown)
    else:
        sys.stdout.write(plain_text(shown))


@command.command(
    name="ls",
    short_help="List running shells.",
    epilog=examples(
        "windlass shell ls --all",
    ),
)
@click.option("-a", "--all", "everything", is_flag=True, help="Include finished shells.")
@json_option
def list_shells(everything: bool, as_json: bool) -> None:
    """List running shells, newest first."""
    import time

    from windlass.cli.output.json import print_json_array
    from windlass.cli.output.table import Column, print_table
    from windlass.cli.output.text import print_message
    from windlass.client.client import default_client
    from windlass.model.records import TrialState

    going = [state.value for state in TrialState if not state.is_final]
    shells = default_client().list_shells(state=None if everything else going, sort_by="-id")
    if as_json:
        print_json_array(shell.record for shell in shells)
        return
    records = [shell.record for shell in shells]
    if not records:
        print_message("No shell is running. Open one: windlass shell")
        return
    columns = [
        Column("ID", is_number=True),
        Column("COMMAND", shrinks=True),
        Column("CODE", shrinks=True),
        Column("STATE"),
        Column("TOOK", is_number=True),
        Column("CREATED", is_number=True),
    ]
    print_table(columns, [_row(record, time.time()) for record in records])


def _attach(shell: Shell) -> int:
    from windlass.cli.output.text import print_message

    if os.isatty(sys.stdin.fileno()):
        print_message(f"Shell {shell.id}. Detach: Ctrl-] twice. End: exit.")
    return shell.attach() or 0


def _row(record: TrialRecord, now: float) -> Row:
    from windlass.cli.output.table import Cell
    from windlass.cli.output.text import clean, format_ago, state_colour
    from windlass.comparison.settings import command_of
    from windlass.display.trial_cells import format_run_time

    state = _end_of(record) if record.state.is_final else record.state.value
    return [
        str(record.id),
        clean(command_of(record.spec.roles[0].executable)),
        clean(_format_origin(record)),
        Cell(state, state_colour(record.state)),
        format_run_time(record, now),
        Cell(format_ago(record.created, now), "dim"),
    ]


def _format_origin(record: TrialRecord) -> str:
    """Describe the trial or folder that supplied the shell's code."""
    trial_id = record.recipe.code_of
    return record.spec.code.root or "-" if trial_id is None else f"trial {trial_id}"


def _end_of(record: TrialRecord) -> str:
    """Describe how a shell ended.

    A failure of the last command that ran in a shell does not count as a failure of the shell.
    """
    if record.state.value == "STOPPED":
        return "killed"
    return "lost" if record.exit_code is None else f"exit {record.exit_code}"
