"""`windlass suspend`: trials that make room, to go on later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from windlass.cli.parameters import TRIAL_ID

if TYPE_CHECKING:
    from windlass.client.trials import Trial


@click.command(short_help="Stop trials for now, to be resumed later.")
@click.argument("trial_ids", type=TRIAL_ID, nargs=-1, required=True, metavar="ID...")
def command(trial_ids: tuple[int, ...]) -> int:
    """Stop the processes of trials without ending the trials, and free what they hold.

    Resumed, they start anew: from their latest checkpoint, if they keep any.
    """
    from windlass.cli.steering import steer

    return steer(trial_ids, _suspend)


def _suspend(trial: Trial[Any]) -> str:
    from windlass.cli.steering import called

    before = trial.state == "SUSPENDED"
    stopping = _told_to_stop(trial)
    trial.suspend()
    if before:
        return f"{called(trial)} was suspended before."
    how = "is suspended" if trial.state == "SUSPENDED" else "is being suspended"
    return f"{called(trial)} {how}{stopping}. To go on: windlass resume {trial.id}"


def _told_to_stop(trial: Trial[Any]) -> str:
    """What a suspension asks of the replicas that are there; they may take their time."""
    there = [each for each in trial.replicas if each.attempt and each.ended is None]
    if not there:
        return ""
    if len(trial.replicas) == 1:
        return "; its process is told to stop"
    many = f"{len(there)} replicas are" if len(there) > 1 else "1 replica is"
    return f"; {many} told to stop"
