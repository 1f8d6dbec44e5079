"""`windlass workspace`: sets of projects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from windlass.cli.groups import Group
from windlass.cli.keeping import archived_option, complete_names, is_wanted, yes_option
from windlass.cli.parameters import json_option

if TYPE_CHECKING:
    from windlass.cli.tables import Row
    from windlass.model.places import WorkspaceRecord

_NAME = click.argument("name", metavar="NAME", shell_complete=complete_names("workspaces"))


@click.group(cls=Group, short_help="Make, list and change workspaces, which hold projects.")
def command() -> None:
    """Make, list and change workspaces, which hold projects.

    One called `default` always exists, and is meant where none is named.
    """


@command.command(name="ls", short_help="List them.")
@archived_option
@json_option
def list_them(archived: bool, as_json: bool) -> None:
    """List workspaces, with how many projects each has."""
    from windlass.cli.keeping import print_list
    from windlass.cli.tables import Column
    from windlass.client.session import default_client

    columns = [
        Column("ID", is_number=True),
        Column("WORKSPACE", shrinks=True),
        Column("PROJECTS", is_number=True),
        Column("CREATED", is_number=True),
        Column("DESCRIPTION", shrinks=True),
    ]
    found = default_client().list_workspaces(archived=archived)
    print_list(found, columns, _row, "No workspace is archived.", as_json=as_json)


def _row(record: WorkspaceRecord, now: float) -> Row:
    from windlass.cli.tables import Cell
    from windlass.cli.text import clean, format_ago

    created = Cell(format_ago(record.created, now), "dim")
    about = clean(record.description)
    return [str(record.id), clean(record.name), str(record.projects), created, about]


@command.command(short_help="Make one.")
@click.argument("name", metavar="NAME")
@click.option("--description", default="", metavar="TEXT", help="What it is for.")
@json_option
def create(name: str, description: str, as_json: bool) -> None:
    """Make a workspace; no other has its name."""
    from windlass.cli.machine import print_json
    from windlass.client.session import default_client

    made = default_client().create_workspace(name, description)
    if as_json:
        print_json(made.record)
        return
    print(f"Workspace {made.name} is made. A project in it: windlass project create {name}/vision")


@command.command(short_help="Call it otherwise.")
@_NAME
@click.argument("new", metavar="NEW")
def rename(name: str, new: str) -> None:
    """Give a workspace another name; its projects are named by that from now on."""
    from windlass.client.session import default_client

    print(f"Workspace {name} is {default_client().get_workspace(name).set_name(new).name} now.")


@command.command(short_help="Leave it out of lists.")
@_NAME
def archive(name: str) -> None:
    """Leave a workspace, and all it holds, out of lists. Nothing is lost."""
    from windlass.client.session import default_client

    found = default_client().get_workspace(name).archive()
    print(f"Workspace {found.name} is archived. Back: windlass workspace unarchive {found.name}")


@command.command(short_help="Have it in lists again.")
@_NAME
def unarchive(name: str) -> None:
    """Have a workspace in lists again."""
    from windlass.client.session import default_client

    print(f"Workspace {default_client().get_workspace(name).unarchive().name} is back.")


@command.command(name="rm", short_help="Delete it, if it is empty.")
@_NAME
@yes_option
@click.pass_context
def remove(ctx: click.Context, name: str, yes: bool) -> int:
    """Delete a workspace that holds no project."""
    from windlass.client.session import default_client

    found = default_client().get_workspace(name)
    if not is_wanted(ctx, f"the workspace {found.name}", yes=yes):
        return 1
    found.delete()
    print(f"Workspace {found.name} is deleted.")
    return 0
