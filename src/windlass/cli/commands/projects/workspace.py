"""Implements `windlass workspace`, which manages sets of projects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from windlass.cli.options.help_sections import examples
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


@click.group(
    cls=Group,
    short_help="Manage workspaces, which contain projects.",
    epilog=examples(
        "windlass workspace create lab",
        "windlass workspace ls",
    ),
)
def command() -> None:
    """Create, list and change workspaces, which contain projects.

    The workspace `default` always exists, and commands use it unless you name another.
    """


@command.command(
    name="ls",
    short_help="List workspaces.",
    epilog=examples(
        "windlass workspace ls",
    ),
)
@archived_option
@json_option
def list_workspaces(archived: bool, as_json: bool) -> None:
    """List workspaces with their number of projects."""
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


@command.command(
    short_help="Create a workspace.",
    epilog=examples(
        "windlass workspace create lab --description 'Vision group'",
    ),
)
@click.argument("name", metavar="NAME")
@click.option("--description", default="", metavar="TEXT", help="Description.")
@json_option
def create(name: str, description: str, as_json: bool) -> None:
    """Create a workspace. Its name must be unique."""
    from windlass.cli.output.json import print_json
    from windlass.client.client import default_client

    with suggest_on_conflict("windlass workspace ls"):
        made = default_client().create_workspace(name, description)
    if as_json:
        print_json(made.record)
        return
    print(
        f"Workspace {made.name} is created. To add a project: windlass project create {name}/vision"
    )


add_common(
    command,
    "workspace",
    renamed="Rename a workspace. Its projects show the new name.",
    archived="Hide a workspace and its contents from lists. The data stays.",
)
add_removal(command, "workspace", about="Delete a workspace without projects.")
