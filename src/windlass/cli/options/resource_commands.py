"""Shared parts of the commands for workspaces, projects, models and templates."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from windlass.cli.options.help_sections import examples

if TYPE_CHECKING:
    from windlass.cli.output.table import Column, Row

F = TypeVar("F", bound=Callable[..., Any])


def archived_option(function: F) -> F:
    """Add `--archived`, an option for lists of archivable resources."""
    return click.option("--archived", is_flag=True, help="List archived entries only.")(function)


def yes_option(function: F) -> F:
    """Add `--yes`, which skips the confirmation before a deletion."""
    return click.option("-y", "--yes", is_flag=True, help="Delete without confirmation.")(function)


def metadata_option(function: F) -> F:
    """Add `--metadata`, an option for commands that set a model's metadata."""
    return click.option(
        "-m", "--metadata", multiple=True, metavar="NAME=VALUE",
        help="Set metadata: a number, text or JSON; repeatable.",
    )(function)  # fmt: skip


@contextmanager
def suggest_on_conflict(show_command: str) -> Iterator[None]:
    """Add a hint to the error for a name conflict raised in the `with` block.

    The hint is a command that shows the existing resource.
    """
    from windlass.model.errors import Conflict

    try:
        yield
    except Conflict as error:
        error.hint = f"Choose another name. To see the existing one, run: {show_command}"
        raise


def confirm_delete(ctx: click.Context, what: str, *, yes: bool) -> bool:
    """Ask the user to confirm a deletion, unless `yes` is set."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise click.UsageError(
            "Deletion needs a confirmation, and the input is not a terminal. Add --yes.", ctx
        )
    try:
        if click.confirm(f"Delete {what}?"):
            return True
    except click.Abort:  # after Ctrl-C or Ctrl-D, the cursor is still behind the prompt
        print("\nNothing is deleted.")
        raise
    print("Nothing is deleted.")
    return False


def add_common(group: click.Group, noun: str, *, renamed: str, archived: str) -> None:
    """Add the commands `rename`, `archive` and `unarchive` to a group.

    `renamed` and `archived` are the help texts of `rename` and `archive`.
    """
    named = click.argument(
        "name", metavar=noun.upper(), shell_complete=complete_names(f"{noun}s")
    )  # fmt: skip

    def get(name: str) -> Any:
        from windlass.client.client import default_client

        return getattr(default_client(), f"get_{noun}")(name)

    @group.command(
        short_help="Rename it.",
        help=renamed,
        epilog=examples(f"windlass {noun} rename old-name new-name"),
    )
    @named
    @click.argument("new", metavar="NEW")
    def rename(name: str, new: str) -> None:
        print(f"{noun.capitalize()} {name} is {resource_label(get(name).set_name(new))} now.")

    @group.command(
        short_help="Hide it from lists.",
        help=archived,
        epilog=examples(f"windlass {noun} archive old-name"),
    )
    @named
    def archive(name: str) -> None:
        label = resource_label(get(name).archive())
        print(
            f"{noun.capitalize()} {label} is archived. To undo: windlass {noun} unarchive {label}"
        )

    @group.command(
        short_help="Show it in lists again.",
        help=f"Show an archived {noun} in lists again.",
        epilog=examples(f"windlass {noun} unarchive old-name"),
    )
    @named
    def unarchive(name: str) -> None:
        print(f"{noun.capitalize()} {resource_label(get(name).unarchive())} is back.")


def add_removal(group: click.Group, noun: str, *, about: str) -> None:
    """Add the command `rm`, for resources that can only be deleted when empty."""

    @group.command(
        name="rm",
        short_help="Delete it, if it is empty.",
        help=about,
        epilog=examples(f"windlass {noun} rm old-name"),
    )
    @click.argument("name", metavar=noun.upper(), shell_complete=complete_names(f"{noun}s"))
    @yes_option
    @click.pass_context
    def remove(ctx: click.Context, name: str, yes: bool) -> int:
        from windlass.client.client import default_client

        resource = getattr(default_client(), f"get_{noun}")(name)
        if not confirm_delete(ctx, f"the {noun} {resource_label(resource)}", yes=yes):
            return 1
        resource.delete()
        print(f"{noun.capitalize()} {resource_label(resource)} is deleted.")
        return 0


def resource_label(resource: Any) -> str:
    """Return a resource's name. A project's name includes its workspace."""
    name: str = getattr(resource, "place", None) or resource.name
    return name


def print_list(
    resources: Iterable[Any],
    columns: Sequence[Column],
    row: Callable[[Any, float], Row],
    nothing: str,
    *,
    as_json: bool,
) -> None:
    """Print resources as a table or as JSON. `nothing` is the message if there are none."""
    import time

    from windlass.cli.output.json import print_json_array
    from windlass.cli.output.table import print_table
    from windlass.cli.output.text import print_message

    records = [resource.record for resource in resources]
    if as_json:
        print_json_array(records)
    elif not records:
        print_message(nothing)
    else:
        now = time.time()
        print_table(columns, [row(record, now) for record in records])


def complete_names(noun: str) -> Callable[..., list[Any]]:
    """Return a function that completes names of resources. It never starts a server."""

    def complete(
        ctx: click.Context,  # noqa: ARG001 -- click's signature
        param: click.Parameter,  # noqa: ARG001 -- click's signature
        incomplete: str,
    ) -> list[Any]:
        from click.shell_completion import CompletionItem

        from windlass.cli.options.server_probe import recent_names

        return [CompletionItem(name) for name in recent_names(noun) if name.startswith(incomplete)]

    return complete
