"""Implements `windlass code`, which downloads a trial's recorded code."""

from __future__ import annotations

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.options.parameters import (
    TRIAL_OR_EXPERIMENT,
    chosen_folder,
    folder_argument,
    to_option,
)

_MOST_SHOWN = 10
_KINDS = {"functions": "Functions without a file", "packages": "Packages outside of the project"}


@click.command(
    short_help="Download the code of a trial.",
    epilog=examples(
        "windlass code 7",
        "windlass code 7 --to baseline",
        "windlass code --experiment rates",
    ),
)
@click.argument("which", type=TRIAL_OR_EXPERIMENT, metavar="ID")
@folder_argument
@to_option("Folder (code-ID).")
@click.option("-e", "--experiment", is_flag=True, help="ID is the id or name of an experiment.")
def command(which: str, place: str | None, folder: str | None, experiment: bool) -> None:
    """Download a trial's recorded code to a folder. Existing files stay unchanged.

    For an experiment, download the code of all its trials. Each version of the code gets its own
    folder.
    """
    import shlex

    from windlass.cli.output.download_note import print_packaging_note
    from windlass.cli.output.text import print_message
    from windlass.client.client import default_client
    from windlass.packaging.project_files.ignore import RECORDED

    client = default_client()
    if not experiment and which.isascii() and which.isdecimal():
        to = chosen_folder(folder, place, f"code-{which}")
        written = client.get_trial(int(which)).download_code(to)
    else:
        named = client.get_experiment(which)
        to = chosen_folder(folder, place, f"code-of-experiment-{named.id}")
        written = named.download_code(to)
    print_message(f"The code is in {shlex.quote(str(written))}")
    recorded = sorted(written.glob(f"**/{RECORDED}/*"))
    for inner in recorded[:_MOST_SHOWN]:
        print_message(f"{_KINDS.get(inner.name, 'Other code')}: {shlex.quote(str(inner))}")
    print_packaging_note(written)
