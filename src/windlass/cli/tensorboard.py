"""`windlass tensorboard`: the real TensorBoard, on what trials wrote for it."""

from __future__ import annotations

import click

from windlass.cli.parameters import TRIAL_ID, complete_experiments


@click.command(short_help="Start TensorBoard on what trials wrote for it.")
@click.argument("trial_ids", type=TRIAL_ID, metavar="[ID]...", nargs=-1)
@click.option(
    "-e",
    "--experiment",
    metavar="NAME",
    shell_complete=complete_experiments,
    help="All trials of an experiment.",
)
@click.option("--port", type=click.IntRange(0, 65535), help="Where it listens [6006, or the next].")
@click.option("--host", metavar="ADDRESS", help="Who can reach it [this machine alone].")
@click.pass_context
def command(
    ctx: click.Context,
    trial_ids: tuple[int, ...],
    experiment: str | None,
    port: int | None,
    host: str | None,
) -> int:
    """Start TensorBoard on what trials wrote to `wl.tensorboard_dir()`, live while they run.

    It ends with Ctrl-C. Each trial is a run, each replica of several a run below it.
    """
    import signal

    from windlass.cli.text import say
    from windlass.client.session import default_client
    from windlass.client.tensorboard import Board

    if not trial_ids and experiment is None:
        raise click.UsageError("Name trials by their ids, or an experiment with -e.", ctx)
    client = default_client()
    trials = [client.get_trial(each) for each in dict.fromkeys(trial_ids)]
    if experiment is not None:
        trials += client.get_experiment(experiment).list_trials()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # it ends as with Ctrl-C
    board = Board(trials, port=port, host=host)
    say("Starting TensorBoard ...")
    with board:
        say(f"It shows them at {board.url} (Ctrl-C ends it)")
        return board.attend()
