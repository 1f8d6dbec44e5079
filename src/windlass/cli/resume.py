"""`windlass resume`: trials that were suspended go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from windlass.cli.parameters import TRIAL_ID

if TYPE_CHECKING:
    from windlass.client.trials import Trial


@click.command(short_help="Let suspended trials go on.")
@click.argument("trial_ids", type=TRIAL_ID, nargs=-1, required=True, metavar="ID...")
def command(trial_ids: tuple[int, ...]) -> int:
    """Let suspended trials go on, once there is room for them.

    Their processes start anew, from their latest checkpoint if they keep any.
    """
    from windlass.cli.steering import steer

    return steer(trial_ids, _resume)


def _resume(trial: Trial[Any]) -> str:
    from windlass.cli.steering import called, state_words

    was_suspended = trial.record.spec.suspend
    trial.resume()
    if not was_suspended:
        return f"{called(trial)} was not suspended; it is {state_words(trial)}."
    return f"{called(trial)} is resumed; it is {state_words(trial)}."
