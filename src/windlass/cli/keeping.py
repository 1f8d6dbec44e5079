"""What the commands for workspaces, projects, models and templates share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from windlass.cli.tables import Column, Row

F = TypeVar("F", bound=Callable[..., Any])


def archived_option(function: F) -> F:
    """`--archived`, which every list of what can be archived has."""
    return click.option("--archived", is_flag=True, help="Only those that are archived.")(function)


def yes_option(function: F) -> F:
    """`--yes`, which every command that deletes has."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask.")(function)


def metadata_option(function: F) -> F:
    """`--metadata`, which every command has that notes something on models."""
    return click.option(
        "-m", "--metadata", multiple=True, metavar="NAME=VALUE",
        help="Something noted on it, a number or text or JSON; repeatable.",
    )(function)  # fmt: skip


def is_wanted(ctx: click.Context, what: str, *, yes: bool) -> bool:
    """Whether something is to be deleted, asked for unless that was said."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise click.UsageError("There is nobody to ask: say --yes to delete.", ctx)
    if click.confirm(f"Delete {what}?"):
        return True
    print("Nothing is deleted.")
    return False


def print_list(
    found: Iterable[Any],
    columns: Sequence[Column],
    row: Callable[[Any, float], Row],
    nothing: str,
    *,
    as_json: bool,
) -> None:
    """Print resources as a table, or as JSON; if there are none, say what can be done."""
    import time

    from windlass.cli.machine import print_json_array
    from windlass.cli.tables import print_table
    from windlass.cli.text import say

    records = [each.record for each in found]
    if as_json:
        print_json_array(records)
    elif not records:
        say(nothing)
    else:
        now = time.time()
        print_table(columns, [row(record, now) for record in records])


def complete_names(noun: str) -> Callable[..., list[Any]]:
    """Complete the names of what a server that runs knows; none is started for this."""

    def complete(
        ctx: click.Context,  # noqa: ARG001 -- click's signature
        param: click.Parameter,  # noqa: ARG001 -- click's signature
        incomplete: str,
    ) -> list[Any]:
        from click.shell_completion import CompletionItem

        from windlass.cli.sighting import known_names

        return [CompletionItem(name) for name in known_names(noun) if name.startswith(incomplete)]

    return complete
