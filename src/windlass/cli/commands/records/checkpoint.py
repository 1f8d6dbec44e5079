"""Implements `windlass checkpoint`, which lists, shows, downloads and deletes checkpoints."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.options.lazy_groups import Group
from windlass.cli.options.parameters import (
    TRIAL_ID,
    WholeNumber,
    complete_checkpoints,
    json_option,
    to_option,
)
from windlass.cli.options.resource_commands import confirm_delete, yes_option

if TYPE_CHECKING:
    from windlass.client.resources.checkpoint import Checkpoint

_MOST = 50
_MOST_METRICS = 4  # show at most this many metrics as columns
_EXAMPLES = examples(
    "windlass checkpoint ls 7",
    "windlass checkpoint ls 7 --sort loss",
    "windlass checkpoint download 12 --to best-model",
    "windlass checkpoint rm 9 10 11",
)


@click.group(cls=Group, short_help="List, download and delete checkpoints.", epilog=_EXAMPLES)
def command() -> None:
    """List, download and delete checkpoints."""


@command.command(
    name="ls",
    short_help="List checkpoints, newest first.",
    epilog=examples(
        "windlass checkpoint ls 7 --sort loss",
    ),
)
@click.argument("trial_id", type=TRIAL_ID, required=False, metavar="[ID]")
@click.option(
    "--sort", default="-id", metavar="WHAT",
    help="Sort by id, step, created, size, or for one trial by a metric: loss, -accuracy.",
)  # fmt: skip
@click.option(
    "-n", "--limit", type=WholeNumber(min=1), default=_MOST, metavar="N",
    help=f"Maximum number of rows ({_MOST}).",
)  # fmt: skip
@json_option
def list_(trial_id: int | None, sort: str, limit: int, as_json: bool) -> None:
    """List one trial's or all trials' checkpoints, newest first.

    Each metric is shown as of the checkpoint's step: its value at that step, or else its last
    earlier value.
    """
    from windlass.client.client import default_client

    checkpoints = default_client().list_checkpoints(trial=trial_id, sort_by=sort, limit=limit)
    if as_json:
        from windlass.cli.output.json import print_json_array

        print_json_array(checkpoint.record for checkpoint in checkpoints)
        return
    from windlass.display.trial_columns import sorted_metric

    _print(list(checkpoints), trial_id, (sorted_metric(sort) or ("", ""))[0])


@command.command(
    short_help="Show the record of a checkpoint.",
    epilog=examples(
        "windlass checkpoint show 12",
    ),
)
@click.argument("name_or_id", metavar="ID", shell_complete=complete_checkpoints)
@json_option
def show(name_or_id: str, as_json: bool) -> None:
    """Show a checkpoint's metrics, metadata and files, and where the checkpoint is used."""
    from windlass.cli.commands.everyday.metrics import format_value
    from windlass.cli.output.text import clean, counted, format_ago, format_moment, paint
    from windlass.model.text.quantities import format_ordinal, format_size

    checkpoint = _get(name_or_id)
    if as_json:
        from windlass.cli.output.json import print_json

        print_json(checkpoint.record)
        return
    from windlass.client.resources.checkpoint_files import fetch_files

    at = "" if checkpoint.step is None else f"  step {checkpoint.step}"
    print(paint(f"Checkpoint {checkpoint.id}  {clean(checkpoint.name)}{at}", bold=True))
    which = format_ordinal(checkpoint.number)
    created = checkpoint.record.created
    saved = f"{format_moment(created)} ({format_ago(created, time.time())})"
    facts = {
        "trial": f"{checkpoint.trial_id}, its {which} checkpoint, of attempt {checkpoint.attempt}",
        "saved": saved,
        "shards": str(checkpoint.shards or ""),
        "size": f"{format_size(checkpoint.size)} in {counted(checkpoint.files, 'file')}",
        "used by": ", ".join(
            [*(f"{clean(name)}@{which}" for name, which in checkpoint.models.items())]
            + [f"trial {trial_id}, which started from it" for trial_id in checkpoint.continued_by]
        ),
        "uid": checkpoint.uid,
    }
    for name, text in facts.items():
        if text:
            print(f"  {name:<9}{text}")
    for title, values in (
        ("Metrics", {name: format_value(value) for name, value in checkpoint.metrics.items()}),
        ("Metadata", {name: str(value) for name, value in checkpoint.metadata.items()}),
    ):
        if values:
            print()
            print(paint(title, bold=True))
            width = max(len(clean(name)) for name in values)
            for name, text in values.items():
                print(f"  {clean(name):<{width}}  {clean(text)}")
    print()
    print(paint("Files", bold=True))
    for file in fetch_files(checkpoint.transport, checkpoint.record):
        print(f"  {format_size(file.size):>9}  {clean(file.path)}")


@command.command(
    short_help="Download the files of a checkpoint.",
    epilog=examples(
        "windlass checkpoint download 12 --to best-model",
    ),
)
@click.argument("name_or_id", metavar="ID", shell_complete=complete_checkpoints)
@to_option("Folder (checkpoint-ID). Resumes an interrupted download.")
def download(name_or_id: str, folder: str | None) -> None:
    """Download a checkpoint's files to a folder."""
    from windlass.cli.output.download_note import print_packaging_note
    from windlass.cli.output.text import print_message

    checkpoint = _get(name_or_id)
    to = folder or f"checkpoint-{checkpoint.id}"
    print_message(f"Checkpoint {checkpoint.id} is in {checkpoint.download(to)}")
    print_packaging_note(to)


@command.command(
    short_help="Delete checkpoints.",
    epilog=examples(
        "windlass checkpoint rm 9 10 11",
    ),
)
@click.argument(
    "names", metavar="ID...", nargs=-1, required=True, shell_complete=complete_checkpoints
)
@yes_option
@click.pass_context
def rm(ctx: click.Context, names: tuple[str, ...], yes: bool) -> int:
    """Delete checkpoints, except those that a model version or another trial uses.

    Checkpoints can share stored files, so run windlass gc to free the disk space.
    """
    from windlass.cli.output.text import print_error
    from windlass.model.errors import Conflict, NotFound

    code, checkpoints = 0, []
    for text in dict.fromkeys(names):
        try:
            checkpoints.append(_get(text))
        except NotFound as error:
            print_error(str(error))
            code = 1
    named = ", ".join(
        f"{checkpoint.id} (of trial {checkpoint.trial_id})" for checkpoint in checkpoints
    )
    if checkpoints and not confirm_delete(ctx, f"checkpoint {named}", yes=yes):
        return 1
    for checkpoint in checkpoints:
        try:
            checkpoint.delete()
        except (Conflict, NotFound) as error:
            print_error(str(error))
            code = 1
        else:
            print(f"Checkpoint {checkpoint.id} is deleted.")
    return code


def _get(text: str) -> Checkpoint:
    from windlass.client.client import default_client

    return default_client().get_checkpoint(int(text) if _is_id(text) else text)


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19


def _print(checkpoints: list[Checkpoint], trial_id: int | None, sorted_by: str) -> None:
    from collections import Counter

    from windlass.cli.commands.everyday.metrics import format_value
    from windlass.cli.output.table import Column, print_table
    from windlass.cli.output.text import clean, format_ago, print_message
    from windlass.model.text.quantities import format_size

    is_all = trial_id is None
    if not checkpoints:
        none = "There are no checkpoints" if is_all else f"Trial {trial_id} has no checkpoints"
        print_message(f"{none}. Save them in the program: wl.save_checkpoint(path, step=...)")
        return
    # The sort metric comes first, followed by the most common metrics.
    common = Counter(name for checkpoint in checkpoints for name in checkpoint.metrics)
    metrics = sorted(common, key=lambda name: (name != sorted_by, -common[name]))[:_MOST_METRICS]
    columns = [Column("ID", is_number=True)]
    columns += [Column("TRIAL", is_number=True)] if is_all else []
    columns += [Column("STEP", is_number=True)]
    columns += [Column(clean(name).upper(), is_number=True) for name in metrics]
    columns += [Column("SIZE", is_number=True), Column("SAVED"), Column("NAME", shrinks=True)]
    now = time.time()
    rows: list[list[Any]] = []
    for checkpoint in checkpoints:
        row = [str(checkpoint.id), *([str(checkpoint.trial_id)] if is_all else [])]
        row += ["-" if checkpoint.step is None else str(checkpoint.step)]
        row += [format_value(checkpoint.metrics.get(name)) or "-" for name in metrics]
        row += [
            format_size(checkpoint.size),
            format_ago(checkpoint.record.created, now),
            clean(checkpoint.name),
        ]
        rows.append(row)
    print_table(columns, rows)
