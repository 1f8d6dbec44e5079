"""`windlass workspace`: sets of projects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from windlass.cli.options.lazy_groups import Group
from windlass.cli.options.parameters import json_option
from windlass.cli.options.resource_commands import (
    add_common,
    add_removal,
    archived_option,
    suggest_on_conflict,
)

if TYPE_CHECKING:
    from windlass.cli.output.table import Row
    from windlass.model.workspaces import WorkspaceRecord


@click.group(cls=Group, short_help="Make, list and change workspaces, which hold projects.")
def command() -> None:
    """Make, list and change workspaces, which hold projects.

    One called `default` always exists, and is meant where none is named.
    """


@command.command(name="ls", short_help="List them.")
@archived_option
@json_option
def list_workspaces(archived: bool, as_json: bool) -> None:
    """List workspaces, with how many projects each has."""
    from windlass.cli.options.resource_commands import print_list
    from windlass.cli.output.table import Column
    from windlass.client.client import default_client

    columns = [
        Column("ID", is_number=True),
        Column("WORKSPACE", shrinks=True),
        Column("PROJECTS", is_number=True),
        Column("CREATED", is_number=True),
        Column("DESCRIPTION", shrinks=True),
    ]
    workspaces = default_client().list_workspaces(archived=archived)
    print_list(workspaces, columns, _row, "No workspace is archived.", as_json=as_json)


def _row(record: WorkspaceRecord, now: float) -> Row:
    from windlass.cli.output.table import Cell
    from windlass.cli.output.text import clean, format_ago

    created = Cell(format_ago(record.created, now), "dim")
    about = clean(record.description)
    return [str(record.id), clean(record.name), str(record.projects), created, about]


@command.command(short_help="Make one.")
@click.argument("name", metavar="NAME")
@click.option("--description", default="", metavar="TEXT", help="What it is for.")
@json_option
def create(name: str, description: str, as_json: bool) -> None:
    """Make a workspace; no other has its name."""
    from windlass.cli.output.json import print_json
    from windlass.client.client import default_client

    with suggest_on_conflict("windlass workspace ls"):
        made = default_client().create_workspace(name, description)
    if as_json:
        print_json(made.record)
        return
    print(f"Workspace {made.name} is made. A project in it: windlass project create {name}/vision")


add_common(
    command,
    "workspace",
    renamed="Give a workspace another name; its projects are named by that from now on.",
    archived="Leave a workspace, and all it holds, out of lists. Nothing is lost.",
)
add_removal(command, "workspace", about="Delete a workspace that holds no project.")
