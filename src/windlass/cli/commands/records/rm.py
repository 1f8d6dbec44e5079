"""Implements `windlass rm`, which deletes trials and experiments after a confirmation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.options.parameters import TRIAL_ID, experiment_option, name_or_id
from windlass.cli.options.resource_commands import confirm_delete, yes_option

if TYPE_CHECKING:
    from windlass.client.client import Client
    from windlass.client.resources.experiment.experiment import Experiment
    from windlass.client.resources.trial.trial import Trial

_NAMED = 10


@click.command(
    short_help="Delete trials and their data.",
    epilog=examples(
        "windlass rm 7 8",
        "windlass rm --experiment rates --yes",
        'windlass rm --where "metrics.loss > 1"',
    ),
)
@click.argument("trial_ids", type=TRIAL_ID, nargs=-1, metavar="[ID...]")
@experiment_option("An experiment with all its trials. With --where: its matching trials.")
@click.option(
    "-w", "--where", metavar="TEXT",
    help='Trials that match a condition, as for windlass ls.',
)  # fmt: skip
@yes_option
@click.pass_context
def command(
    ctx: click.Context,
    trial_ids: tuple[int, ...],
    experiment: str | None,
    where: str | None,
    yes: bool,
) -> int:
    """Delete finished trials with their logs, metrics, checkpoints and files.

    Trials can share stored files, so run windlass gc to free the disk space.
    """
    from windlass.cli.output.text import print_error
    from windlass.client.client import default_client
    from windlass.model.errors import NotFound

    if not trial_ids and experiment is None and where is None:
        raise click.UsageError(
            "Name trials by their ids, or use --experiment NAME or --where TEXT.", ctx
        )
    if trial_ids and where is not None:
        raise click.UsageError("Use trial ids or --where TEXT, not both.", ctx)
    client = default_client()
    if where is not None:
        return _delete_matching(ctx, client, experiment, where, yes=yes)
    code = 0
    trials = []
    for trial_id in dict.fromkeys(trial_ids):
        try:
            trials.append(client.get_trial(trial_id))
        except NotFound as error:
            print_error(str(error))
            code = 1
    named_experiment = None
    if experiment is not None:
        named_experiment = client.get_experiment(name_or_id(experiment))
    if not trials and named_experiment is None:
        return code
    if not confirm_delete(ctx, _named(trials, named_experiment), yes=yes):
        return 1
    return max(code, _delete(trials, named_experiment))


def _delete_matching(
    ctx: click.Context, client: Client, experiment: str | None, where: str, *, yes: bool
) -> int:
    """Delete the trials that `windlass ls` would list, after fetching the whole list."""
    from windlass.cli.output.text import counted, print_message, warnings_as_messages

    with warnings_as_messages():
        if experiment is None:
            trials = list(client.list_trials(where=where))
        else:
            whose = client.get_experiment(name_or_id(experiment))
            trials = list(whose.list_trials(where=where))
    if not trials:
        print_message("No trial matches. Nothing is deleted.")
        return 0
    if not confirm_delete(ctx, f"{counted(len(trials), 'trial')}: {_named(trials, None)}", yes=yes):
        return 1
    return _delete(trials, None)


def _named(trials: Sequence[Trial[Any]], experiment: Experiment | None) -> str:
    named = [f"trial {trial.id} ({trial.name})" for trial in trials[:_NAMED]]
    if len(trials) > _NAMED:
        named.append(f"{len(trials) - _NAMED} more trials")
    if experiment is not None:
        many = "1 trial" if experiment.trial_count == 1 else f"{experiment.trial_count} trials"
        named.append(f"experiment {experiment.id} ({experiment.name}) with {many}")
    return ", ".join(named)


def _delete(trials: Sequence[Trial[Any]], experiment: Experiment | None) -> int:
    from windlass.cli.output.text import print_error
    from windlass.model.errors import Conflict, NotFound

    records: list[tuple[str, Trial[Any] | Experiment]] = [
        (f"Trial {trial.id} ({trial.name})", trial) for trial in trials
    ]
    if experiment is not None:
        records.append((f"Experiment {experiment.id} ({experiment.name})", experiment))
    code = 0
    for name, record in records:
        try:
            record.delete()
        except Conflict as error:
            print_error(f"{name} is not deleted. {error}")
            code = 1
        except NotFound:  # the trial was deleted by another user or along with another trial
            print(f"{name} is already deleted.", flush=True)
        else:
            print(f"{name} is deleted.", flush=True)
    return code
