"""`windlass project`: sets of experiments and models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from windlass.cli.options.lazy_groups import Group
from windlass.cli.options.parameters import json_option
from windlass.cli.options.resource_commands import (
    add_common,
    add_removal,
    archived_option,
    complete_names,
    suggest_on_conflict,
)

if TYPE_CHECKING:
    from windlass.cli.output.table import Row
    from windlass.model.workspaces import ProjectRecord


@click.group(cls=Group, short_help="Make, list and change projects, which hold experiments.")
def command() -> None:
    """Make, list and change projects, which hold experiments and models.

    A project is named as vision, or as lab/vision outside the default workspace.
    """


@command.command(name="ls", short_help="List them.")
@click.argument(
    "workspace", required=False, metavar="[WORKSPACE]", shell_complete=complete_names("workspaces")
)
@archived_option
@json_option
def list_projects(workspace: str | None, archived: bool, as_json: bool) -> None:
    """List projects, of a workspace or of all, with how much each holds."""
    from windlass.cli.options.resource_commands import print_list
    from windlass.cli.output.table import Column
    from windlass.client.client import default_client

    columns = [
        Column("ID", is_number=True),
        Column("PROJECT", shrinks=True),
        Column("EXPERIMENTS", is_number=True),
        Column("MODELS", is_number=True),
        Column("CREATED", is_number=True),
        Column("DESCRIPTION", shrinks=True),
    ]
    projects = default_client().list_projects(workspace=workspace, archived=archived)
    nothing = "No project is archived." if archived else "There is no project in it."
    print_list(projects, columns, _row, nothing, as_json=as_json)


def _row(record: ProjectRecord, now: float) -> Row:
    from windlass.cli.output.table import Cell
    from windlass.cli.output.text import clean, format_ago

    return [
        str(record.id),
        clean(record.place),
        str(record.experiments),
        str(record.models),
        Cell(format_ago(record.created, now), "dim"),
        clean(record.description),
    ]


@command.command(short_help="Make one.")
@click.argument("place", metavar="PROJECT")
@click.option("--description", default="", metavar="TEXT", help="What it is for.")
@json_option
def create(place: str, description: str, as_json: bool) -> None:
    """Make a project, in the default workspace or another: lab/vision."""
    from windlass.cli.output.json import print_json
    from windlass.client.client import default_client
    from windlass.model.text.names import check, place_flaw, split_place

    check(place_flaw(place))
    workspace, name = split_place(place)
    with suggest_on_conflict("windlass project ls"):
        made = default_client().get_workspace(workspace).create_project(name, description)
    if as_json:
        print_json(made.record)
        return
    print(f"Project {made.place} is made. An experiment is moved there by:")
    print(f"  windlass edit -e EXPERIMENT --project {made.place}")


@command.command(short_help="Put it into another workspace.")
@click.argument("place", metavar="PROJECT", shell_complete=complete_names("projects"))
@click.argument("workspace", metavar="WORKSPACE", shell_complete=complete_names("workspaces"))
def move(place: str, workspace: str) -> None:
    """Put a project, with all it holds, into another workspace."""
    from windlass.client.client import default_client

    print(f"Project {place} is {default_client().get_project(place).move_to(workspace).place} now.")


add_common(
    command,
    "project",
    renamed="Give a project another name; all it holds tells that from now on.",
    archived="Leave a project, and all it holds, out of lists. Nothing is lost.",
)
add_removal(command, "project", about="Delete a project that holds no experiment and no model.")
