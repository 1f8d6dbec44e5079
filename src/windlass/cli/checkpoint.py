"""`windlass checkpoint`: what trials saved, listed, looked at, fetched, deleted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.groups import Group
from windlass.cli.keeping import is_wanted, yes_option
from windlass.cli.parameters import (
    TRIAL_ID,
    WholeNumber,
    complete_checkpoints,
    json_option,
    to_option,
)

if TYPE_CHECKING:
    from windlass.client.checkpoints import Checkpoint

_MOST = 50
_MOST_METRICS = 4  # columns of a list
_EXAMPLES = """Examples:

\b
  windlass checkpoint ls 7
  windlass checkpoint ls 7 --sort loss
  windlass checkpoint download 12 --to best-model
  windlass checkpoint rm 9 10 11
"""


@click.group(cls=Group, short_help="List, fetch and delete what trials saved.", epilog=_EXAMPLES)
def command() -> None:
    """Look at the checkpoints that trials saved, fetch and delete them."""


@command.command(name="ls", short_help="List checkpoints, newest first.")
@click.argument("trial_id", type=TRIAL_ID, required=False, metavar="[ID]")
@click.option(
    "--sort", default="-id", metavar="WHAT",
    help="id, step, created, size; of a trial: a metric (metrics.loss or loss, -accuracy).",
)  # fmt: skip
@click.option("-n", "--limit", type=WholeNumber(min=1), default=_MOST, help=f"({_MOST})")
@json_option
def list_(trial_id: int | None, sort: str, limit: int, as_json: bool) -> None:
    """List the checkpoints of a trial, or of all, newest first.

    A metric is told as it was reported at the step of the checkpoint, or last before.
    """
    from windlass.client.session import default_client

    found = default_client().list_checkpoints(trial=trial_id, sort_by=sort, limit=limit)
    if as_json:
        from windlass.cli.machine import print_json_array

        print_json_array(each.record for each in found)
        return
    from windlass.cli.ls import sorted_metric

    _print(list(found), trial_id, (sorted_metric(sort) or ("", ""))[0])


@command.command(short_help="Show everything recorded of a checkpoint.")
@click.argument("checkpoint", metavar="ID", shell_complete=complete_checkpoints)
@json_option
def show(checkpoint: str, as_json: bool) -> None:
    """Show a checkpoint: its metrics, what needs it, what was noted on it, and its files."""
    from windlass.cli.metrics import format_value
    from windlass.cli.text import clean, counted, format_ago, format_moment, paint
    from windlass.model.quantities import format_ordinal, format_size

    found = _get(checkpoint)
    if as_json:
        from windlass.cli.machine import print_json

        print_json(found.record)
        return
    from windlass.client.checkpoint_files import tree_of

    at = "" if found.step is None else f"  step {found.step}"
    print(paint(f"Checkpoint {found.id}  {clean(found.name)}{at}", bold=True))
    which = format_ordinal(found.number)
    facts = {
        "trial": f"{found.trial_id}, its {which} checkpoint, of attempt {found.attempt}",
        "saved": f"{format_moment(found.created)} ({format_ago(found.created, time.time())})",
        "shards": str(found.shards or ""),
        "size": f"{format_size(found.size)} in {counted(found.files, 'file')}",
        "used by": ", ".join(
            [*(f"{clean(name)}@{which}" for name, which in found.models.items())]
            + [f"trial {each}, which began with it" for each in found.continued_by]
        ),
        "uid": found.uid,
    }
    for name, text in facts.items():
        if text:
            print(f"  {name:<9}{text}")
    for title, values in (
        ("Metrics", {name: format_value(value) for name, value in found.metrics.items()}),
        ("Metadata", {name: str(value) for name, value in found.metadata.items()}),
    ):
        if values:
            print()
            print(paint(title, bold=True))
            width = max(len(clean(name)) for name in values)
            for name, text in values.items():
                print(f"  {clean(name):<{width}}  {clean(text)}")
    print()
    print(paint("Files", bold=True))
    for file in tree_of(found.transport, found.record):
        print(f"  {format_size(file.size):>9}  {clean(file.path)}")


@command.command(short_help="Write the files of a checkpoint to a folder.")
@click.argument("checkpoint", metavar="ID", shell_complete=complete_checkpoints)
@to_option("The folder (checkpoint-ID). One that was cut is gone on with.")
def download(checkpoint: str, folder: str | None) -> None:
    """Write the files of a checkpoint to a folder, which is made if need be."""
    from windlass.cli.fetching import say_packaged
    from windlass.cli.text import say

    found = _get(checkpoint)
    to = folder or f"checkpoint-{found.id}"
    say(f"Checkpoint {found.id} is in {found.download(to)}")
    say_packaged(to)


@command.command(short_help="Delete checkpoints.")
@click.argument(
    "checkpoints", metavar="ID...", nargs=-1, required=True, shell_complete=complete_checkpoints
)
@yes_option
@click.pass_context
def rm(ctx: click.Context, checkpoints: tuple[str, ...], yes: bool) -> int:
    """Delete checkpoints that no model version and no trial that began with them needs.

    The space of files that others may share is freed by `windlass gc`.
    """
    from windlass.cli.text import say_error
    from windlass.model.errors import Conflict, NotFound

    code, found = 0, []
    for text in dict.fromkeys(checkpoints):
        try:
            found.append(_get(text))
        except NotFound as error:
            say_error(str(error))
            code = 1
    named = ", ".join(f"{each.id} (of trial {each.trial_id})" for each in found)
    if found and not is_wanted(ctx, f"checkpoint {named}", yes=yes):
        return 1
    for each in found:
        try:
            each.delete()
        except (Conflict, NotFound) as error:
            say_error(str(error))
            code = 1
        else:
            print(f"Checkpoint {each.id} is deleted.")
    return code


def _get(text: str) -> Checkpoint:
    from windlass.client.session import default_client

    return default_client().get_checkpoint(int(text) if _is_id(text) else text)


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19


def _print(found: list[Checkpoint], trial_id: int | None, sorted_by: str) -> None:
    from collections import Counter

    from windlass.cli.metrics import format_value
    from windlass.cli.tables import Column, print_table
    from windlass.cli.text import clean, format_ago, say
    from windlass.model.quantities import format_size

    is_all = trial_id is None
    if not found:
        none = "There are no checkpoints" if is_all else f"Trial {trial_id} has no checkpoints"
        say(f"{none}. A program saves them: wl.save_checkpoint(path, step=...)")
        return
    # As many as there is room for: what they are sorted by, and what most of them have.
    common = Counter(name for each in found for name in each.metrics)
    metrics = sorted(common, key=lambda name: (name != sorted_by, -common[name]))[:_MOST_METRICS]
    columns = [Column("ID", is_number=True)]
    columns += [Column("TRIAL", is_number=True)] if is_all else []
    columns += [Column("STEP", is_number=True)]
    columns += [Column(clean(name).upper(), is_number=True) for name in metrics]
    columns += [Column("SIZE", is_number=True), Column("SAVED"), Column("NAME", shrinks=True)]
    now = time.time()
    rows: list[list[Any]] = []
    for each in found:
        row = [str(each.id), *([str(each.trial_id)] if is_all else [])]
        row += ["-" if each.step is None else str(each.step)]
        row += [format_value(each.metrics.get(name)) or "-" for name in metrics]
        row += [format_size(each.size), format_ago(each.created, now), clean(each.name)]
        rows.append(row)
    print_table(columns, rows)
