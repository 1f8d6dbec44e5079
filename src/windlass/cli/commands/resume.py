"""`windlass resume`: resume suspended trials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options.parameters import TRIAL_ID

if TYPE_CHECKING:
    from windlass.client.resources.trial.trial import Trial


@click.command(short_help="Let suspended trials go on.")
@click.argument("trial_ids", type=TRIAL_ID, nargs=-1, required=True, metavar="ID...")
def command(trial_ids: tuple[int, ...]) -> int:
    """Let suspended trials go on, once there is room for them.

    Their processes start anew, from their latest checkpoint if they keep any.
    """
    from windlass.cli.options.for_each_trial import change_trials

    return change_trials(trial_ids, _resume)


def _resume(trial: Trial[Any]) -> str:
    from windlass.cli.options.for_each_trial import state_words, trial_label

    was_suspended = trial.record.spec.suspend
    trial.resume()
    if not was_suspended:
        return f"{trial_label(trial)} was not suspended; it is {state_words(trial)}."
    return f"{trial_label(trial)} is resumed; it is {state_words(trial)}."
