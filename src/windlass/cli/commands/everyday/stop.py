"""Implements `windlass stop`, which stops trials and waits until they have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.options.parameters import TRIAL_ID, TimeType, experiment_option

if TYPE_CHECKING:
    from windlass.client.client import Client
    from windlass.client.resources.trial.trial import Trial


@click.command(
    short_help="Stop trials.",
    epilog=examples(
        "windlass stop 7 8",
        "windlass stop --experiment rates",
        "windlass stop 7 --grace 2m",
        "windlass stop 7 --ask",
    ),
)
@click.argument("trial_ids", type=TRIAL_ID, nargs=-1, metavar="[ID...]")
@experiment_option("All unfinished trials of an experiment.")
@click.option(
    "--grace", type=TimeType(at_most=3600),
    help="Time between SIGTERM and SIGKILL (10s).",
)  # fmt: skip
@click.option(
    "--force", is_flag=True,
    help="End trials whose cluster does not answer. Pods may keep running.",
)  # fmt: skip
@click.option("--no-wait", is_flag=True, help="Return at once.")
@click.option("--ask", is_flag=True, help="Only make wl.should_stop() return True in the trials.")
@click.pass_context
def command(
    ctx: click.Context,
    trial_ids: tuple[int, ...],
    experiment: str | None,
    grace: float | None,
    force: bool,
    no_wait: bool,
    ask: bool,
) -> int:
    """Stop trials and wait until they have ended.

    Processes receive SIGTERM and, after the grace time, SIGKILL. A finished trial keeps its state,
    but replicas that it left running (clean_policy "None") are stopped.

    With --force, trials end even if their cluster does not respond. Windlass deletes their pods
    once the cluster responds again. With --ask, the program is asked to end by itself.
    """
    from windlass.cli.output.text import print_error, print_message
    from windlass.client.client import default_client
    from windlass.model.errors import NotFound

    if not trial_ids and experiment is None:
        raise click.UsageError(
            "Name trials by their ids, or an experiment: --experiment NAME.", ctx
        )
    if ask and (no_wait or force or grace is not None):
        raise click.UsageError("--ask cannot be used with --force, --grace or --no-wait.", ctx)
    client = default_client()
    how: dict[str, Any] = {
        "grace": 10.0 if grace is None else grace,
        "reason": "windlass stop --force" if force else "windlass stop",
        "force": force,
    }
    stopping = [] if experiment is None else _stop_experiment(experiment, how, asks=ask)
    is_missing = False
    for trial_id in dict.fromkeys(trial_ids):
        try:
            trial = client.get_trial(trial_id)
        except NotFound as error:
            print_error(str(error))
            is_missing = True
            continue
        if trial.is_finished:
            _print_end(trial, before=True)
            if not ask:
                _stop_leftovers(trial, how)
            continue
        if ask:
            _request_stop(trial)
            continue
        stopping.append(trial.stop(**how))
    try:
        _finish(client, stopping, waits=not no_wait)
    except KeyboardInterrupt:
        print_message("Stopped waiting. The trials continue to stop: windlass ls")
        return 130
    return 1 if is_missing else 0


def _request_stop(trial: Trial[Any]) -> None:
    trial.ask_to_stop("windlass stop --ask")
    print(f"Trial {trial.id} ({trial.name}) was asked to stop by itself.", flush=True)


def _stop_experiment(name: str, how: dict[str, Any], *, asks: bool) -> list[Trial[Any]]:
    """Stop an experiment's running trials, or ask them to end by themselves.

    Return the trials to wait for.
    """
    from windlass.cli.output.text import print_message
    from windlass.client.client import default_client
    from windlass.model.records import TrialState

    experiment = default_client().get_experiment(int(name) if name.isdecimal() else name)
    going = [state.value for state in TrialState if not state.is_final]
    trials = list(experiment.list_trials(state=going))
    if not trials:
        print_message(f"No trial of experiment {experiment.id} ({experiment.name}) is running.")
    if asks:
        for trial in trials:
            _request_stop(trial)
        return []
    experiment.stop(**how)
    return trials


def _finish(client: Client, stopping: list[Trial[Any]], *, waits: bool) -> None:
    from windlass.client.terminal.view import View
    from windlass.client.terminal.watch_trial import wait_and_report

    for trial in stopping:
        if waits:
            with View() as view:
                trial = wait_and_report(client, trial, view)
        if trial.is_finished:
            _print_end(trial)
        else:
            print(f"Trial {trial.id} ({trial.name}) is being stopped.", flush=True)


def _stop_leftovers(trial: Trial[Any], how: dict[str, Any]) -> None:
    from windlass.client.resources.trial.replica_names import is_generated
    from windlass.client.terminal.sanitize import tame

    going = [attempt for attempt in trial.attempts if attempt.ended is None]
    left = [f"{attempt.role}-{attempt.index}" for attempt in going]
    if is_generated(trial.record):  # the generator failed, but its child trials are still running
        left = [f"trial {child.id}" for child in trial.children if not child.is_finished]
    if left:
        trial.stop(**how)
        print(f"Also stopping: {', '.join(left)}.", flush=True)
    for message in dict.fromkeys(attempt.message for attempt in going if attempt.message):
        print(f"  {tame(message)}", flush=True)


def _print_end(trial: Trial[Any], *, before: bool = False) -> None:
    from windlass.client.resources.trial.outcome import how_it_ended
    from windlass.client.terminal.sanitize import tame
    from windlass.model.status import GIVEN_UP

    is_left = any(attempt.reason == GIVEN_UP for attempt in trial.attempts)
    is_ours = trial.state == "STOPPED" and not before and not is_left
    how = "is stopped" if is_ours else how_it_ended(trial.record).rstrip(".")
    had_ended = "had already ended: it " if before else ""
    print(f"Trial {trial.id} ({trial.name}) {had_ended}{tame(how)}.", flush=True)
