"""Implements `windlass artifacts`, which lists or downloads a trial's output files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.options.parameters import TRIAL_ID, WholeNumber, json_option, to_option

if TYPE_CHECKING:
    from collections.abc import Iterable

    from windlass.client.resources.stored_files import OutputFile

_NONE = (
    "There are no such files. Programs write them to their working folder or to wl.output_dir()."
)


@click.command(
    short_help="List or download the output files of a trial.",
    epilog=examples(
        "windlass artifacts 7",
        "windlass artifacts 7 'plots/*' --to plots",
    ),
)
@click.argument("trial_id", type=TRIAL_ID, metavar="ID")
@click.argument("pattern", required=False)
@to_option("Download to a folder. Resumes an interrupted download.")
@click.option("--overwrite", is_flag=True, help="Replace existing files.")
@click.option("--role", metavar="ROLE", help="Files of the replicas of a role.")
@click.option("--index", type=WholeNumber(min=0), metavar="N", help="Files of replica N.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    trial_id: int,
    pattern: str | None,
    folder: str | None,
    overwrite: bool,
    role: str | None,
    index: int | None,
    as_json: bool,
) -> int:
    """List the files that a trial wrote, or download them with --to.

    These are files in wl.output_dir(), and new or changed files in the trial's copy of the project.

    PATTERN selects files by name, such as '*.pt' or 'plots/*'. A `*` also matches `/`.
    """
    from windlass.client.client import default_client

    if folder is None and overwrite:
        raise click.UsageError("--overwrite needs --to.", ctx)
    if folder is not None and as_json:
        raise click.UsageError("--to and --json cannot be used together.", ctx)
    trial = default_client().get_trial(trial_id)
    files = trial.list_artifacts(pattern, role=role, index=index)
    if folder is not None:
        from windlass.cli.options.python_to_options import errors_as_options
        from windlass.cli.output.download_note import print_packaging_note
        from windlass.cli.output.text import print_message

        if next(iter(files), None) is None:
            print_message(_NONE)
            return 1
        with errors_as_options():
            target = trial.download_artifacts(
                folder, pattern, role=role, index=index, overwrite=overwrite
            )
        print_message(f"The files are in {target}")
        print_packaging_note(target)
    elif as_json:
        from windlass.cli.output.json import print_json_array

        print_json_array(files)
    else:
        replicas = {(replica.role, replica.index) for replica in trial.replicas}
        _print_files(files, whose=len(replicas) > 1)
    return 0


def _print_files(files: Iterable[OutputFile], *, whose: bool) -> None:
    from windlass.cli.output.table import Column, print_table
    from windlass.cli.output.text import clean, counted, format_moment, print_message
    from windlass.model.text.quantities import format_size

    columns = [Column("SIZE", is_number=True), Column("CHANGED"), Column("NAME")]
    columns = [Column("REPLICA"), *columns] if whose else columns
    rows, size = [], 0
    for file in files:
        size += file.size
        changed = format_moment(file.modified.timestamp()) if not file.problem else "-"
        name = clean(file.name) + (f"  ({clean(file.problem)})" if file.problem else "")
        row = [format_size(file.size), changed, name]
        rows.append([f"{file.role}-{file.index}", *row] if whose else row)
    if not rows:
        print_message(_NONE)
        return
    print_table(columns, rows)
    print_message(f"{counted(len(rows), 'file')}, {format_size(size)}")
