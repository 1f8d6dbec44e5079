"""Implements `windlass gc`, which deletes unreferenced data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.options.parameters import TimeType

if TYPE_CHECKING:
    from windlass.model.requests import GarbageReport

_MOST_LISTED = 20  # list at most this many unknown folders


@click.command(
    short_help="Free the disk space of deleted data.",
    epilog=examples(
        "windlass gc --dry-run",
        "windlass gc --older-than 1d",
    ),
)
@click.option("-n", "--dry-run", is_flag=True, help="Print how much would be freed.")
@click.option(
    "--older-than", type=TimeType(), default="1h", show_default=True,
    help="Keep data that was used within this time.",
)  # fmt: skip
@click.option(
    "--set-aside", is_flag=True,
    help="Move folders of trials that the database does not know into set-aside/ of the home.",
)  # fmt: skip
def command(dry_run: bool, older_than: float, set_aside: bool) -> int:
    """Delete stored code, values, checkpoints and files that no record refers to.

    Everything that belongs to a trial, experiment or model is kept. The command is safe while
    trials run.

    The command also lists trial folders that are not in the database, for example because you
    restored an older database. It never deletes these folders.
    """
    from windlass.client.client import default_client
    from windlass.model.text.quantities import format_size

    report = default_client().gc(older_than=older_than, dry_run=dry_run, set_aside=set_aside)
    done = "Would free" if dry_run else "Freed"
    contents = _many(report.blobs, "unused content", "unused contents")
    folders = f" and {_many(report.folders, 'folder', 'folders')}" if report.folders else ""
    print(f"{done} {format_size(report.bytes)}: {contents}{folders}.")
    young = f", {report.young} of them because they are new or in use" if report.young else ""
    print(f"{_many(report.kept, 'content is', 'contents are')} kept{young}.")
    _print_unknown(report)
    return 0


def _print_unknown(report: GarbageReport) -> None:
    from windlass.cli.output.text import format_moment, print_message
    from windlass.model.text.quantities import format_size

    if not report.unknown_count:
        return
    number = report.unknown_count
    print()
    print(f"The database does not know the trials of {_many(number, 'folder', 'folders')}:")
    for folder in report.unknown[:_MOST_LISTED]:
        size = format_size(folder.bytes)
        print(f"  trials/{folder.name}  {size}, changed {format_moment(folder.modified)}")
    if number > _MOST_LISTED:
        print(f"  and {number - _MOST_LISTED} more")
    if report.set_aside:
        print(f"They are now in {report.set_aside}. Delete them there if you do not need them.")
        return
    print_message(
        "They stay. If you restored an older database, restore a newer one to see these trials.\n"
        "To move them out of the way: windlass gc --set-aside"
    )


def _many(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"
