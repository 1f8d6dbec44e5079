"""Implements `windlass tensorboard`, which runs TensorBoard on the event files of trials."""

from __future__ import annotations

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.options.parameters import (
    TRIAL_ID,
    WholeNumber,
    experiment_option,
    name_or_id,
    to_option,
)


@click.command(
    short_help="Start TensorBoard for trials.",
    epilog=examples(
        "windlass tensorboard 3 5",
        "windlass tensorboard --experiment rates --port 7000",
        "windlass tensorboard 3 5 --to runs",
    ),
)
@click.argument("trial_ids", type=TRIAL_ID, metavar="[ID]...", nargs=-1)
@experiment_option("All trials of an experiment.")
@click.option(
    "--port", type=WholeNumber(0, 65535), metavar="N", help="Port (6006, or the next free one)."
)
@click.option("--host", metavar="ADDRESS", help="Address to listen on (this machine only).")
@to_option("Only download the files, one folder per trial.")
@click.pass_context
def command(
    ctx: click.Context,
    trial_ids: tuple[int, ...],
    experiment: str | None,
    port: int | None,
    host: str | None,
    folder: str | None,
) -> int:
    """Start TensorBoard on the event files that trials write.

    Programs write events to wl.tensorboard_dir() or to other folders, such as runs or logs. Each
    trial is a run in TensorBoard. New events appear while a trial runs. Ctrl-C stops TensorBoard.
    --to downloads the files instead. Run it again to update them.
    """
    import signal

    from windlass.cli.output.download_note import print_packaging_note
    from windlass.cli.output.text import print_message
    from windlass.client.client import default_client
    from windlass.client.resources.tensorboard import TensorBoard, download_boards

    if not trial_ids and experiment is None:
        raise click.UsageError("Name trials by their ids, or an experiment with -e.", ctx)
    if folder is not None and (port is not None or host is not None):
        raise click.UsageError("--to does not start TensorBoard. Remove --port and --host.", ctx)
    client = default_client()
    trials = [client.get_trial(trial_id) for trial_id in dict.fromkeys(trial_ids)]
    if experiment is not None:
        trials += client.get_experiment(name_or_id(experiment)).list_trials()
    if folder is not None:
        download_boards(trials, folder)
        print_message(f"The files are in {folder}")
        print_packaging_note(folder)
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM acts like Ctrl-C
    server = TensorBoard(trials, port=port, host=host)
    print_message("Starting TensorBoard ...")
    with server:
        print_message(f"TensorBoard runs at {server.url} (Ctrl-C ends it)")
        return server.attend()
