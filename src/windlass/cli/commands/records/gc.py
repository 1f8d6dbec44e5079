"""`windlass gc`: delete unreferenced data."""

from __future__ import annotations

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.options.parameters import TimeType


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
def command(dry_run: bool, older_than: float) -> int:
    """Delete stored code, values, checkpoints and files that no record refers to.

    Data of any trial, experiment or model stays. The command is safe while trials run.
    """
    from windlass.client.client import default_client
    from windlass.model.text.quantities import format_size

    report = default_client().gc(older_than=older_than, dry_run=dry_run)
    done = "Would free" if dry_run else "Freed"
    contents = _many(report.blobs, "unused content", "unused contents")
    folders = f" and {_many(report.folders, 'folder', 'folders')}" if report.folders else ""
    print(f"{done} {format_size(report.bytes)}: {contents}{folders}.")
    young = f", {report.young} of them because they are new or in use" if report.young else ""
    print(f"{_many(report.kept, 'content is', 'contents are')} kept{young}.")
    return 0


def _many(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"
