"""Implements `windlass project`, which manages projects."""

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
    complete_names,
    suggest_on_conflict,
)

if TYPE_CHECKING:
    from windlass.cli.output.table import Row
    from windlass.model.workspaces import ProjectRecord


@click.group(
    cls=Group,
    short_help="Manage projects, which contain experiments and models.",
    epilog=examples(
        "windlass project create lab/vision",
        "windlass project ls lab",
    ),
)
def command() -> None:
    """Create, list and change projects, which contain experiments and models.

    To name a project outside the default workspace, prefix the workspace: lab/vision.
    """


@command.command(
    name="ls",
    short_help="List projects.",
    epilog=examples(
        "windlass project ls lab",
    ),
)
@click.argument(
    "workspace", required=False, metavar="[WORKSPACE]", shell_complete=complete_names("workspaces")
)
@archived_option
@json_option
def list_projects(workspace: str | None, archived: bool, as_json: bool) -> None:
    """List the projects of one or all workspaces, and count their contents."""
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
    nothing = "No project is archived." if archived else "It has no projects."
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


@command.command(
    short_help="Create a project.",
    epilog=examples(
        "windlass project create lab/vision",
    ),
)
@click.argument("place", metavar="PROJECT")
@click.option("--description", default="", metavar="TEXT", help="Description.")
@json_option
def create(place: str, description: str, as_json: bool) -> None:
    """Create a project.

    To create it outside the default workspace, prefix the workspace: lab/vision.
    """
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
    print(f"Project {made.place} is created. To move an experiment there:")
    print(f"  windlass edit -e EXPERIMENT --project {made.place}")


@command.command(
    short_help="Move it to another workspace.",
    epilog=examples(
        "windlass project move vision lab",
    ),
)
@click.argument("place", metavar="PROJECT", shell_complete=complete_names("projects"))
@click.argument("workspace", metavar="WORKSPACE", shell_complete=complete_names("workspaces"))
def move(place: str, workspace: str) -> None:
    """Move a project, including its contents, to another workspace."""
    from windlass.client.client import default_client

    print(f"Project {place} is {default_client().get_project(place).move_to(workspace).place} now.")


add_common(
    command,
    "project",
    renamed="Rename a project. Its experiments and models show the new name.",
    archived="Hide a project and its contents from lists. The data stays.",
)
add_removal(command, "project", about="Delete a project without experiments and models.")
