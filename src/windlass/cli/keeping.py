"""What the commands for workspaces, projects, models and templates share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
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


@contextmanager
def making(look: str) -> Iterator[None]:
    """A name that is another's is told with the command that looks at what there is."""
    from windlass.model.errors import Conflict

    try:
        yield
    except Conflict as error:
        error.hint = f"Choose another name. What there is: {look}"
        raise


def is_wanted(ctx: click.Context, what: str, *, yes: bool) -> bool:
    """Whether something is to be deleted, asked for unless that was said."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise click.UsageError("There is nobody to ask: say --yes to delete.", ctx)
    try:
        if click.confirm(f"Delete {what}?"):
            return True
    except click.Abort:  # Ctrl-C or Ctrl-D: the question still stands on the line
        print("\nNothing is deleted.")
        raise
    print("Nothing is deleted.")
    return False


def add_common(group: click.Group, noun: str, *, renamed: str, archived: str) -> None:
    """`rename`, `archive` and `unarchive`, as workspaces, projects and models have them.

    The texts are what `windlass NOUN rename -h` and `archive -h` say.
    """
    named = click.argument(
        "name", metavar=noun.upper(), shell_complete=complete_names(f"{noun}s")
    )  # fmt: skip

    def get(name: str) -> Any:
        from windlass.client.session import default_client

        return getattr(default_client(), f"get_{noun}")(name)

    @group.command(short_help="Call it otherwise.", help=renamed)
    @named
    @click.argument("new", metavar="NEW")
    def rename(name: str, new: str) -> None:
        print(f"{noun.capitalize()} {name} is {called(get(name).set_name(new))} now.")

    @group.command(short_help="Leave it out of lists.", help=archived)
    @named
    def archive(name: str) -> None:
        told = called(get(name).archive())
        print(f"{noun.capitalize()} {told} is archived. Back: windlass {noun} unarchive {told}")

    @group.command(short_help="Have it in lists again.", help=f"Have a {noun} in lists again.")
    @named
    def unarchive(name: str) -> None:
        print(f"{noun.capitalize()} {called(get(name).unarchive())} is back.")


def add_removal(group: click.Group, noun: str, *, about: str) -> None:
    """`rm`, of what can be deleted only when it is empty."""

    @group.command(name="rm", short_help="Delete it, if it is empty.", help=about)
    @click.argument("name", metavar=noun.upper(), shell_complete=complete_names(f"{noun}s"))
    @yes_option
    @click.pass_context
    def remove(ctx: click.Context, name: str, yes: bool) -> int:
        from windlass.client.session import default_client

        found = getattr(default_client(), f"get_{noun}")(name)
        if not is_wanted(ctx, f"the {noun} {called(found)}", yes=yes):
            return 1
        found.delete()
        print(f"{noun.capitalize()} {called(found)} is deleted.")
        return 0


def called(thing: Any) -> str:
    """What it is asked for by: of a project, with its workspace."""
    name: str = getattr(thing, "place", None) or thing.name
    return name


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
