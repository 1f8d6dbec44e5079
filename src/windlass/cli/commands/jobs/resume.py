"""Implements `windlass resume`, which resumes suspended trials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.options.parameters import TRIAL_ID

if TYPE_CHECKING:
    from windlass.client.resources.trial.trial import Trial


@click.command(
    short_help="Resume suspended trials.",
    epilog=examples(
        "windlass resume 7 8",
    ),
)
@click.argument("trial_ids", type=TRIAL_ID, nargs=-1, required=True, metavar="ID...")
def command(trial_ids: tuple[int, ...]) -> int:
    """Resume suspended trials as soon as there is free capacity.

    A trial continues from its latest checkpoint, or else from the beginning.
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
