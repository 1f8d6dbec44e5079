"""Implements `windlass model`, which manages the model registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.options.lazy_groups import Group
from windlass.cli.options.parameters import (
    chosen_folder,
    complete_checkpoints,
    folder_argument,
    json_option,
    to_option,
)
from windlass.cli.options.resource_commands import (
    add_common,
    archived_option,
    complete_names,
    confirm_delete,
    metadata_option,
    suggest_on_conflict,
    yes_option,
)

if TYPE_CHECKING:
    from windlass.cli.output.sections import Lines
    from windlass.cli.output.table import Row
    from windlass.model.models import ModelRecord, ModelVersionRecord

_NAME = click.argument("name", metavar="MODEL", shell_complete=complete_names("models"))
_LABELS = click.option(
    "-l", "--label", "labels", multiple=True, metavar="TEXT", help="Label; repeatable."
)


@click.group(
    cls=Group,
    short_help="Manage models and their versions.",
    epilog=examples(
        "windlass model register classifier 12 --alias production",
        "windlass model show classifier@production",
        "windlass model download classifier@3 --to best-model",
    ),
)
def command() -> None:
    """Register, list and download models. Each version of a model is a checkpoint.

    Refer to a version by its number or alias: classifier@3, classifier@production,
    classifier@latest.
    """


@command.command(
    name="ls",
    short_help="List models.",
    epilog=examples(
        "windlass model ls --project vision",
    ),
)
@click.option(
    "-p", "--project", metavar="PROJECT", shell_complete=complete_names("projects"),
    help="Models of a project.",
)  # fmt: skip
@_LABELS
@archived_option
@json_option
def list_models(
    project: str | None, labels: tuple[str, ...], archived: bool, as_json: bool
) -> None:
    """List models with their latest versions and aliases."""
    from windlass.cli.options.resource_commands import print_list
    from windlass.cli.output.table import Column
    from windlass.client.client import default_client

    columns = [
        Column("ID", is_number=True),
        Column("MODEL", shrinks=True),
        Column("LATEST", is_number=True),
        Column("ALIASES", shrinks=True),
        Column("PROJECT", shrinks=True),
        Column("CREATED", is_number=True),
        Column("LABELS", shrinks=True),
    ]
    models = default_client().list_models(project=project, labels=labels, archived=archived)
    nothing = "There is no model yet: windlass model create NAME"
    if project or labels or archived:
        nothing = "No model matches."
    print_list(models, columns, _row, nothing, as_json=as_json)


def _row(record: ModelRecord, now: float) -> Row:
    from windlass.cli.output.table import Cell
    from windlass.cli.output.text import clean, format_ago

    return [
        str(record.id),
        clean(record.name),
        str(record.latest or "-"),
        clean(" ".join(f"{alias}={number}" for alias, number in record.aliases.items())),
        clean(record.project),
        Cell(format_ago(record.created, now), "dim"),
        clean(", ".join(record.labels)),
    ]


@command.command(
    short_help="Show a model or one version.",
    epilog=examples(
        "windlass model show classifier",
        "windlass model show classifier@production",
    ),
)
@_NAME
@json_option
def show(name: str, as_json: bool) -> None:
    """Show a model and its newest versions, or just one version (MODEL@VERSION)."""
    from windlass.cli.output.json import plain, print_json
    from windlass.cli.output.table import print_table
    from windlass.client.client import default_client

    client = default_client()
    model_name, which = _split_version(name)
    model = client.get_model(model_name)
    if which:
        _show_version(model.get_version(which).record, as_json=as_json)
        return
    versions = [version.record for version in model.list_versions(sort_by="-version", limit=20)]
    if as_json:
        print_json({**plain(model.record), "newest": [plain(version) for version in versions]})
        return
    _show_model(model.record)
    if versions:
        print()
        print_table(_version_columns(), [_version_row(version) for version in versions])


def _show_model(record: ModelRecord) -> None:
    from windlass.cli.output.sections import print_section
    from windlass.cli.output.text import clean, paint

    print(f"{paint('Model', bold=True)} {clean(record.name)}")
    if record.description:
        print(f"  {clean(record.description)}")
    print_section("", _about_model(record))
    print_section("Metadata", _metadata(record))


def _about_model(record: ModelRecord) -> Lines:
    yield "project", "" if record.project == "default" else record.project
    yield "aliases", ", ".join(f"{alias} is {number}" for alias, number in record.aliases.items())
    yield "archived", "yes" if record.archived else ""
    yield from _noted(record)


def _show_version(record: ModelVersionRecord, *, as_json: bool) -> None:
    from windlass.cli.output.json import print_json
    from windlass.cli.output.sections import print_section
    from windlass.cli.output.text import clean, paint

    if as_json:
        print_json(record)
        return
    title = paint(f"Version {record.version} of {clean(record.model)}", bold=True)
    print(f"{title}  {clean(record.name)}".rstrip())
    print_section("", _about_version(record))
    print_section("Metadata", _metadata(record))


def _about_version(record: ModelVersionRecord) -> Lines:
    step = "" if record.step is None else f", step {record.step}"
    yield "aliases", ", ".join(record.aliases)
    yield "checkpoint", f"{record.checkpoint_id} (trial {record.trial_id}{step})"
    yield from _noted(record)


def _noted(record: ModelRecord | ModelVersionRecord) -> Lines:
    from windlass.cli.output.text import format_moment

    by = f" by {record.user}" if record.user else ""
    yield "labels", ", ".join(record.labels)
    yield "created", format_moment(record.created) + by
    yield "notes", " ".join(record.notes.split())


def _metadata(record: ModelRecord | ModelVersionRecord) -> Lines:
    import json

    for name, value in record.metadata.items():
        yield name, json.dumps(value, ensure_ascii=False)


def _version_columns() -> list[Any]:
    from windlass.cli.output.table import Column

    return [
        Column("VERSION", is_number=True),
        Column("NAME", shrinks=True),
        Column("ALIASES", shrinks=True),
        Column("CHECKPOINT", is_number=True),
        Column("TRIAL", is_number=True),
        Column("STEP", is_number=True),
        Column("LABELS", shrinks=True),
    ]


def _version_row(record: ModelVersionRecord) -> Row:
    from windlass.cli.output.text import clean

    return [
        str(record.version),
        clean(record.name),
        clean(", ".join(record.aliases)),
        str(record.checkpoint_id),
        str(record.trial_id),
        "-" if record.step is None else str(record.step),
        clean(", ".join(record.labels)),
    ]


@command.command(
    short_help="Create a model.",
    epilog=examples(
        "windlass model create classifier --project vision",
    ),
)
@click.argument("name", metavar="MODEL")
@click.option("-p", "--project", metavar="PROJECT", help="Project of the model (default).")
@click.option("--description", default="", metavar="TEXT", help="Description.")
@_LABELS
@metadata_option
def create(
    name: str,
    project: str | None,
    description: str,
    labels: tuple[str, ...],
    metadata: tuple[str, ...],
) -> None:
    """Create a model, at first without versions. Its name must be unique."""
    from windlass.cli.commands.everyday.rerun import read_named_values
    from windlass.client.client import default_client

    noted = read_named_values("metadata", metadata)
    with suggest_on_conflict(f"windlass model show {name}"):
        made = default_client().create_model(name, project, description, labels, noted)
    print(
        f"Model {made.name} is created. To add a version: windlass model register {name} CHECKPOINT"
    )


@command.command(
    short_help="Register a checkpoint as the next version.",
    epilog=examples(
        "windlass model register classifier 12 --alias production",
    ),
)
@_NAME
@click.argument("checkpoint", metavar="CHECKPOINT", shell_complete=complete_checkpoints)
@click.option("--name", "called", default="", metavar="TEXT", help="Name of the version.")
@click.option("--alias", metavar="ALIAS", help="Alias of the version: production.")
@click.option("--notes", default="", metavar="TEXT", help="Notes on the version.")
@_LABELS
@metadata_option
@json_option
def register(
    name: str,
    checkpoint: str,
    called: str,
    alias: str | None,
    notes: str,
    labels: tuple[str, ...],
    metadata: tuple[str, ...],
    as_json: bool,
) -> None:
    """Register a checkpoint (by id) as the next version of a model.

    If the checkpoint is already a version of the model, it keeps its version number.
    """
    from windlass.cli.commands.everyday.rerun import read_named_values
    from windlass.cli.output.json import print_json
    from windlass.cli.output.text import print_message
    from windlass.client.client import default_client

    noted = read_named_values("metadata", metadata)
    model = default_client().get_model(name)
    before = model.latest or 0
    version = model.register_version(
        checkpoint, name=called, notes=notes, labels=labels, metadata=noted
    )
    if version.version <= before and (called or notes or labels or noted):
        print_message(
            f"It already is version {version.version}, which stays unchanged. To change it: "
            f"windlass model edit {model.name}@{version.version}"
        )
    if alias is not None:
        model.set_alias(alias, version)
        version.refresh()
    if as_json:
        print_json(version.record)
        return
    alias_note = f", and {alias}" if alias is not None else ""
    print(f"Checkpoint {version.checkpoint_id} is version {version.version} of {name}{alias_note}.")


@command.command(
    short_help="Change names, labels, notes and metadata.",
    epilog=examples(
        "windlass model edit classifier --label vision",
        "windlass model edit classifier@3 --notes 'Best on ImageNet'",
    ),
)
@_NAME
@click.option("--name", "new", metavar="TEXT", help="New name.")
@click.option("--description", metavar="TEXT", help="New description of a model.")
@click.option("--notes", metavar="TEXT", help="New notes. They replace the old notes.")
@click.option("-l", "--label", "labels", multiple=True, metavar="TEXT", help="Add a label.")
@click.option("--remove-label", "gone", multiple=True, metavar="TEXT", help="Remove a label.")
@metadata_option
@click.option(
    "--remove-metadata", "gone_metadata", multiple=True, metavar="NAME", help="Remove metadata."
)
@click.pass_context
def edit(ctx: click.Context, /, name: str, new: str | None, **options: Any) -> None:
    """Change the record of a model, or of one version (MODEL@VERSION)."""
    from windlass.cli.commands.records.edit import apply_changes
    from windlass.client.client import default_client

    called, which = _split_version(name)
    changes = {
        key: value for key, value in {**options, "name": new}.items() if value not in (None, ())
    }
    if not changes:
        raise click.UsageError("Name a change: --notes, --label, --metadata and so on.", ctx)
    if which and "description" in changes:
        raise click.UsageError("A version has no description. Use --notes TEXT.", ctx)
    model = default_client().get_model(called)
    if which:
        version = model.get_version(which)
        apply_changes(version, changes)
        print(f"Version {version.version} of {model.name} is changed.")
        return
    apply_changes(model, changes)
    print(f"Model {model.name} is changed.")


@command.command(
    short_help="Point an alias at a version, or remove it.",
    epilog=examples(
        "windlass model alias net production 3",
        "windlass model alias net production staging",
        "windlass model alias net production --remove",
    ),
)
@_NAME
@click.argument("alias", metavar="ALIAS")
@click.argument("version", required=False, metavar="[VERSION]")
@click.option("--remove", is_flag=True, help="Remove the alias.")
@click.pass_context
def alias(ctx: click.Context, name: str, alias: str, version: str | None, remove: bool) -> None:
    """Point an alias at a version, which may be a number or another alias."""
    from windlass.client.client import default_client

    if (version is None) is not remove:
        raise click.UsageError("Name a version, or add --remove.", ctx)
    model = default_client().get_model(name)
    if version is None:
        model.remove_alias(alias)
        print(f"{alias} no longer names a version of {model.name}.")
        return
    before, number = model.aliases.get(alias), model.get_version(version).version
    model.set_alias(alias, number)
    was = f" It was {before}." if before not in (None, number) else ""
    print(f"{alias} is version {number} of {model.name}.{was}")


@command.command(
    short_help="Download the files of a version.",
    epilog=examples(
        "windlass model download classifier@production --to best-model",
    ),
)
@_NAME
@folder_argument
@to_option("Folder (MODEL-VERSION). Resumes an interrupted download.")
def download(name: str, place: str | None, folder: str | None) -> None:
    """Download a version's files (MODEL@VERSION), by default the latest version's."""
    from windlass.cli.output.download_note import print_packaging_note
    from windlass.client.client import default_client

    model, which = _split_version(name)
    version = default_client().get_model(model).get_version(which or "latest")
    to = chosen_folder(folder, place, f"{version.model}-{version.version}".replace("/", "-"))
    print(f"Version {version.version} of {version.model} is in {version.download(to)}")
    print_packaging_note(to)


@command.command(
    short_help="Move it to another project.",
    epilog=examples(
        "windlass model move classifier lab/vision",
    ),
)
@_NAME
@click.argument("project", metavar="PROJECT", shell_complete=complete_names("projects"))
def move(name: str, project: str) -> None:
    """Move a model to another project, which is created if needed."""
    from windlass.client.client import default_client

    model = default_client().get_model(name).move_to(project)
    print(f"Model {model.name} is in the project {model.project} now.")


add_common(
    command,
    "model",
    renamed="Rename a model. The new name must be unique.",
    archived="Hide a model from lists. Its data stays.",
)


@command.command(
    name="rm",
    short_help="Delete it or one version.",
    epilog=examples(
        "windlass model rm classifier@3",
    ),
)
@_NAME
@yes_option
@click.pass_context
def remove(ctx: click.Context, name: str, yes: bool) -> int:
    """Delete a model with its versions, or just one version (MODEL@VERSION). Checkpoints stay."""
    from windlass.cli.output.text import counted
    from windlass.client.client import default_client

    called, which = _split_version(name)
    model = default_client().get_model(called)
    if which:
        version = model.get_version(which)
        description = f"version {version.version} of {model.name}"
        if not confirm_delete(ctx, description, yes=yes):
            return 1
        version.delete()
    else:
        description = f"the model {model.name} with {counted(model.versions, 'version')}"
        if not confirm_delete(ctx, description, yes=yes):
            return 1
        model.delete()
    print(f"{description[0].upper()}{description[1:]} is deleted.")
    return 0


def _split_version(name: str) -> tuple[str, str]:
    """Split MODEL@VERSION into a model and a version.

    If the text names no version, the second result is "".

    >>> _split_version("net@3"), _split_version("net")
    (('net', '3'), ('net', ''))
    """
    model, sign, which = name.rpartition("@")
    return (model, which) if sign and model and which else (name, "")
