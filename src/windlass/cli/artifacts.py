"""`windlass artifacts`: the files a trial left in its output folder, listed or fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from windlass.cli.parameters import TRIAL_ID, WholeNumber, json_option, to_option

if TYPE_CHECKING:
    from collections.abc import Iterable

    from windlass.model.records import OutputFile

_NONE = "There are no such files. A program leaves them in wl.output_dir()."


@click.command(short_help="List the files a trial left, or fetch them.")
@click.argument("trial_id", type=TRIAL_ID, metavar="ID")
@click.argument("pattern", required=False)
@to_option("Write them to this folder. One that was cut is gone on with.")
@click.option("--overwrite", is_flag=True, help="Replace other files of the same names there.")
@click.option("--role", metavar="ROLE", help="Those of the replicas of a role.")
@click.option("--index", type=WholeNumber(min=0), metavar="N", help="Those of one replica.")
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
    """List the files that a trial left in `wl.output_dir()`, or fetch them with --to.

    PATTERN picks some by name: '*.pt', 'plots/*'. A `*` stands for anything, also for `/`.
    """
    from windlass.client.session import default_client

    if folder is None and overwrite:
        raise click.UsageError("--overwrite goes with --to.", ctx)
    if folder is not None and as_json:
        raise click.UsageError("--to and --json do not go together.", ctx)
    trial = default_client().get_trial(trial_id)
    found = trial.list_artifacts(pattern, role=role, index=index)
    if folder is not None:
        from windlass.cli.fetching import say_packaged
        from windlass.cli.text import say
        from windlass.cli.wording import in_options

        if next(iter(found), None) is None:
            say(_NONE)
            return 1
        with in_options():
            place = trial.download_artifacts(
                folder, pattern, role=role, index=index, overwrite=overwrite
            )
        say(f"The files are in {place}")
        say_packaged(place)
    elif as_json:
        from windlass.cli.machine import print_json_array

        print_json_array(found)
    else:
        _print_files(found, whose=len({(each.role, each.index) for each in trial.replicas}) > 1)
    return 0


def _print_files(files: Iterable[OutputFile], *, whose: bool) -> None:
    from windlass.cli.tables import Column, print_table
    from windlass.cli.text import clean, counted, format_moment, say
    from windlass.model.quantities import format_size

    columns = [Column("SIZE", is_number=True), Column("CHANGED"), Column("NAME")]
    columns = [Column("REPLICA"), *columns] if whose else columns
    rows, size = [], 0
    for each in files:
        size += each.size
        changed = format_moment(each.modified) if not each.problem else "-"
        name = clean(each.name) + (f"  ({clean(each.problem)})" if each.problem else "")
        row = [format_size(each.size), changed, name]
        rows.append([f"{each.role}-{each.index}", *row] if whose else row)
    if not rows:
        say(_NONE)
        return
    print_table(columns, rows)
    say(f"{counted(len(rows), 'file')}, {format_size(size)}")
