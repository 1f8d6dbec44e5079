"""`windlass priority`: who is let in first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from windlass.cli.parameters import TRIAL_ID, WholeNumber

if TYPE_CHECKING:
    from windlass.client.trials import Trial


@click.command(
    short_help="Give a trial another priority in the queue.",
    context_settings={"ignore_unknown_options": True},  # a number may be below zero
)
@click.argument("trial_id", type=TRIAL_ID, metavar="ID")
@click.argument("priority", type=WholeNumber(-1_000_000, 1_000_000), metavar="N")
def command(trial_id: int, priority: int) -> int:
    """Give a trial another priority: who has the higher is let in first.

    A trial that waits has its new place at once; of one that runs it matters when it waits again.
    """
    from windlass.cli.steering import steer

    return steer([trial_id], lambda trial: _set(trial, priority))


def _set(trial: Trial[Any], priority: int) -> str:
    from windlass.cli.steering import called

    before = trial.priority
    trial.set_priority(priority)
    if before == priority:
        return f"{called(trial)} had the priority {priority} before."
    told = f"{called(trial)} has the priority {priority}"
    if trial.state == "QUEUED":
        return f"{told}: {trial.message}." if trial.message else f"{told}."
    return f"{told}; it is {trial.state.lower()}, and that matters when it waits again."
