"""Implements `windlass priority`, which changes a trial's priority in the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.options.parameters import TRIAL_ID, WholeNumber

if TYPE_CHECKING:
    from windlass.client.resources.trial.trial import Trial


@click.command(
    short_help="Change the priority of a trial in the queue.",
    epilog=examples("windlass priority 7 10"),
    context_settings={"ignore_unknown_options": True},  # accepts negative numbers
)
@click.argument("trial_id", type=TRIAL_ID, metavar="ID")
@click.argument("priority", type=WholeNumber(-1_000_000, 1_000_000), metavar="N")
def command(trial_id: int, priority: int) -> int:
    """Change a trial's priority. Trials with a higher priority start first.

    A waiting trial moves in the queue immediately. A running trial keeps running.
    """
    from windlass.cli.options.for_each_trial import change_trials

    return change_trials([trial_id], lambda trial: _set(trial, priority))


def _set(trial: Trial[Any], priority: int) -> str:
    from windlass.cli.options.for_each_trial import trial_label

    before = trial.priority
    trial.set_priority(priority)
    if before == priority:
        return f"{trial_label(trial)} already has the priority {priority}."
    result = f"{trial_label(trial)} has the priority {priority}"
    if trial.state == "QUEUED":
        return f"{result}: {trial.message}." if trial.message else f"{result}."
    return f"{result}; it is {trial.state.lower()}, so the priority matters when it waits again."
