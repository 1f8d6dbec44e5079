"""Implements `windlass suspend`, which suspends trials and frees their capacity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.options.parameters import TRIAL_ID

if TYPE_CHECKING:
    from windlass.client.resources.trial.trial import Trial


@click.command(
    short_help="Stop trials so that they can be resumed.",
    epilog=examples(
        "windlass suspend 7 8",
    ),
)
@click.argument("trial_ids", type=TRIAL_ID, nargs=-1, required=True, metavar="ID...")
def command(trial_ids: tuple[int, ...]) -> int:
    """Stop the processes of trials and free their resources, without ending the trials.

    After windlass resume, a trial continues from its latest checkpoint, or else from the beginning.
    """
    from windlass.cli.options.for_each_trial import change_trials

    return change_trials(trial_ids, _suspend)


def _suspend(trial: Trial[Any]) -> str:
    from windlass.cli.options.for_each_trial import trial_label

    before = trial.state == "SUSPENDED"
    stopping = _describe_stopping(trial)
    trial.suspend()
    if before:
        return f"{trial_label(trial)} is already suspended."
    how = "is suspended" if trial.state == "SUSPENDED" else "is being suspended"
    return f"{trial_label(trial)} {how}{stopping}. To continue: windlass resume {trial.id}"


def _describe_stopping(trial: Trial[Any]) -> str:
    """Describe the running replicas that a suspension stops."""
    running = [replica for replica in trial.replicas if replica.attempt and replica.ended is None]
    if not running:
        return ""
    if len(trial.replicas) == 1:
        return "; its process is stopping"
    many = f"{len(running)} replicas are" if len(running) > 1 else "1 replica is"
    return f"; {many} stopping"
