"""Implements `windlass run --sweep`, which runs a script once for each combination of values."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from windlass.authoring.checks.command_line import clashes, own_flags
from windlass.authoring.checks.job import check_job, refuse_unsupported
from windlass.authoring.prepare.add_to_experiment import AddOptions, add_jobs
from windlass.authoring.prepare.overrides import with_arguments
from windlass.authoring.prepare.programs import executable_name
from windlass.cli.options.job_from_options import build_job
from windlass.cli.options.sweep_values import grid_problem, read_sweeps
from windlass.client.connection.interrupt import interrupt
from windlass.model.errors import InvalidArgument, NotFound, WindlassError, shown

if TYPE_CHECKING:
    from windlass.authoring.public.jobs import Job
    from windlass.client.client import Client
    from windlass.client.resources.experiment.experiment import Experiment
    from windlass.client.resources.trial.trial import Trial
    from windlass.client.terminal.experiment_progress import Progress
    from windlass.search.spaces import Space

_METHODS = ("grid", "random", "tpe", "asha")
_MOST_TRIALS = 10_000


class SweepOptions(NamedTuple):
    """The options of `windlass run` that apply to sweeps only."""

    sweep: Sequence[str]
    search: str | None
    metric: str | None
    trials: int | None
    concurrent: int | None
    seed: int | None


class Sweep(NamedTuple):
    """A checked sweep: a job, and the values of the parameters that differ between its trials."""

    job: Job
    labels: Sequence[str]
    experiment: str | None
    name: str
    spaces: Mapping[str, Space]
    metric: str | None
    mode: str

    @property
    def default_experiment(self) -> str:
        """The name of a new experiment for this sweep."""
        return f"{self.name}-sweep"

    @property
    def combinations(self) -> list[dict[str, Any]]:
        """The parameters of each trial in a grid. The last parameter changes fastest."""
        combinations: list[dict[str, Any]] = [{}]
        for name, space in self.spaces.items():
            combinations = [
                {**params, name: value} for params in combinations for value in space.values or []
            ]
        return combinations


def run_sweep(
    words: Sequence[str], options: Mapping[str, Any], chosen: SweepOptions,
    *, detach: bool, dry_run: bool, as_json: bool,
) -> int:  # fmt: skip
    """Run a sweep, and return the exit code: 1 if a trial failed or no trial has the metric."""
    sweep = _check(words, options, chosen)
    method = chosen.search or "grid"
    if method != "grid" and (detach or options["suspend"]):
        raise click.UsageError(
            f"--search {method} chooses parameters while the trials run, so that it cannot be used "
            "with --detach or --suspend.\nStart the command in the background, for example in tmux."
        )
    if dry_run:
        return _print_dry_run(sweep, method, chosen.trials, as_json=as_json)
    from windlass.client.client import default_client

    client = default_client()
    experiment = _find_or_create(client, sweep)
    if method != "grid":
        return _search(client, experiment, sweep, chosen)
    trials = _submit(client, experiment, sweep)
    if detach or options["suspend"]:
        return _print_submitted(experiment, trials, as_json=as_json)
    return _report(client, sweep, _watch(client, experiment, trials))


def _check(words: Sequence[str], options: Mapping[str, Any], chosen: SweepOptions) -> Sweep:
    """Check all options before anything is created."""
    spaces = read_sweeps(chosen.sweep)
    mode, metric = _read_metric(chosen.metric)
    _check_method(chosen, spaces, metric)
    job = build_job(words, {**options, "experiment": None})
    example = {name: space.example for name, space in spaces.items()}
    if problems := clashes(example, own_flags(["script.py", *(job.args or ())])):
        names = ", ".join(dict.fromkeys(keys[-1] for keys, _ in problems))
        raise InvalidArgument(
            f"--sweep: the command already has a value of {names}.",
            hint=f"Remove it from the command, or remove --sweep {names}=...",
        )
    first, problems = with_arguments(job, example)
    if problems:
        raise InvalidArgument.of([text for _, text in problems], where="--sweep")
    check_job(first)
    refuse_unsupported(first)
    name = job.name or executable_name(job.executable)
    return Sweep(job, options["labels"], options["experiment"], name, spaces, metric, mode)


def _read_metric(text: str | None) -> tuple[str, str | None]:
    """Parse `--metric`, an optional `min` or `max` and the name of a metric."""
    words = (text or "").split(maxsplit=1)
    if len(words) == 2 and words[0] in ("min", "max"):
        return words[0], words[1]
    if text in ("", "min", "max"):
        raise InvalidArgument("--metric names no metric.", hint="Write: --metric 'min val_loss'")
    return "min", text


def _check_method(chosen: SweepOptions, spaces: Mapping[str, Space], metric: str | None) -> None:
    method = chosen.search or "grid"
    if method not in _METHODS:
        raise InvalidArgument(
            f"--search: there is no method {shown(method)}.", hint=f"Use {', '.join(_METHODS)}."
        )
    if method != "grid" and metric is None:
        raise InvalidArgument(
            f"--search {method} needs the metric to optimize.",
            hint="Name a metric that the script reports: --metric 'min val_loss' or "
            "--metric 'max accuracy'",
        )
    if method == "grid":
        for name in ("trials", "concurrent", "seed"):
            if getattr(chosen, name) is not None:
                raise InvalidArgument(
                    f"--{name} has no effect on a grid, which runs every combination.",
                    hint=f"Remove --{name}, or choose a method: --search random",
                )
        for name, space in spaces.items():
            if (problem := grid_problem(name, space)) is not None:
                raise problem
        size = 1
        for space in spaces.values():
            size *= len(space.values or [])
        if size > _MOST_TRIALS:
            raise InvalidArgument(
                f"--sweep: {size:,} combinations exceed the limit of {_MOST_TRIALS:,} trials.",
                hint="Leave values out, or choose some of them: --search random --trials 100",
            )


def _find_or_create(client: Client, sweep: Sweep) -> Experiment:
    """Return the experiment named by `--experiment`, or a new one."""
    name = sweep.experiment
    if name is None:
        from windlass.authoring.prepare.job_spec import prepare_job

        project = prepare_job(sweep.job, lambda: client).where.project
        return client.create_experiment(sweep.default_experiment, project=project)
    if name.isascii() and name.isdecimal():
        return client.get_experiment(int(name))
    try:
        return client.get_experiment(name)
    except NotFound:
        return client.create_experiment(name)


# -- a grid ---------------------------------------------------------------------------


def _submit(client: Client, experiment: Experiment, sweep: Sweep) -> list[Trial[Any]]:
    """Submit all trials.

    If the user interrupts the submission, stop the trials that were already submitted.
    """
    mark = f"sweep/{uuid.uuid4().hex[:12]}/"
    wishes = [
        AddOptions(args=params, labels=sweep.labels, identity=f"{mark}{number}")
        for number, params in enumerate(sweep.combinations)
    ]
    try:
        return add_jobs(client, experiment.record, sweep.job, wishes)
    except KeyboardInterrupt:
        for trial in experiment.list_trials(sort_by="-id"):
            if trial.record.recipe.identity.startswith(mark):
                interrupt(client.transport, trial.id, "Ctrl-C")
        raise


def _watch(client: Client, experiment: Experiment, trials: Sequence[Trial[Any]]) -> Progress:
    """Wait until all trials have ended. Ctrl-C stops the trials."""
    from windlass.client.terminal.live_lines import Live
    from windlass.client.terminal.sigterm import sigterm_interrupts
    from windlass.client.terminal.watch_experiment import ExperimentWait

    ids = {trial.id for trial in trials}
    wait = ExperimentWait(client.transport, experiment.record, only=ids)
    with sigterm_interrupts() as interruption, Live(wait.progress.table) as live:
        try:
            wait.follow(live)
        except KeyboardInterrupt:
            try:
                live.say([(f"Stopping the trials; {interruption.again}.", "")])
                _stop(client, wait.progress, trials, interruption.reason)
                wait.follow(live)
            except KeyboardInterrupt:
                live.say(
                    [(f"Left the trials while they stop. See: {_list_command(experiment)}", "")]
                )
            raise KeyboardInterrupt from None
    return wait.progress


def _stop(client: Client, progress: Progress, trials: Sequence[Trial[Any]], reason: str) -> None:
    """Stop the unfinished trials, newest first, so that no waiting trial starts."""
    for trial in reversed(trials):
        record = progress.trials.get(trial.id)
        if record is None or not record.state.is_final:
            interrupt(client.transport, trial.id, reason)


def _report(client: Client, sweep: Sweep, progress: Progress) -> int:
    """Print a table of the trials and the errors of failed trials. Return the exit code."""
    from windlass.cli.output.text import paint, print_error
    from windlass.client.terminal.watch_experiment import experiment_error
    from windlass.comparison.tables import build_table

    records = [progress.trials[trial_id] for trial_id in sorted(progress.trials)]
    metric = sweep.metric
    is_reported = metric is not None and any(metric in record.metrics for record in records)
    sign = "-" if sweep.mode == "max" else ""
    sort_by = f"{sign}metrics.{metric}" if is_reported else None
    print(
        build_table(records, metrics=[metric] if is_reported and metric else None, sort_by=sort_by)
    )
    error = experiment_error(progress, client.transport)
    if error is not None:
        print_error(str(error))
    if metric is not None and not is_reported:
        print_error(f"No trial reported the metric {shown(metric)}.")
    print(paint(f"List them again: windlass ls -e {progress.experiment.id}", dim=True))
    return int(error is not None or (metric is not None and not is_reported))


def _print_submitted(experiment: Experiment, trials: Sequence[Trial[Any]], *, as_json: bool) -> int:
    from windlass.cli.output.json import print_json_array
    from windlass.cli.output.text import counted, paint

    if as_json:
        print_json_array(trial.record for trial in trials)
        return 0
    how = "submitted and suspended" if trials[0].record.spec.suspend else "submitted"
    number = counted(len(trials), "trial")
    print(f"{number} of experiment {experiment.id} ({experiment.name}): {how}.")
    for command, what in {
        _list_command(experiment): "see their states",
        f"windlass stop -e {experiment.id}": "stop them",
    }.items():
        print(f"  {command:<22} " + paint(what, dim=True))
    return 0


def _list_command(experiment: Experiment) -> str:
    return f"windlass ls -e {experiment.id}"


# -- a search -------------------------------------------------------------------------


def _search(client: Client, experiment: Experiment, sweep: Sweep, chosen: SweepOptions) -> int:
    """Run or continue a search. The search prints its own progress and result."""
    from windlass.model.errors import Conflict
    from windlass.search.start import search

    try:
        result = search(
            client, experiment.record, sweep.job,
            space=sweep.spaces, metric=sweep.metric or "", mode=sweep.mode,
            method=str(chosen.search), trials=chosen.trials, concurrent=chosen.concurrent or 8,
            name="search", seed=chosen.seed, timeout=None, args=None, labels=sweep.labels,
            to_continue=f"run the same command with --experiment {experiment.id}",
        )  # fmt: skip
    except Conflict as error:
        error.hint = "Use the same options, or another experiment: --experiment NAME"
        raise
    except WindlassError as error:
        error.message = error.message.replace("exp.search: ", "--search: ")
        error.hint = error.hint and error.hint.replace("metric=", "--metric ")
        raise
    return 0 if result.best is not None else 1


# -- a dry run ------------------------------------------------------------------------


def _print_dry_run(sweep: Sweep, method: str, trials: int | None, *, as_json: bool) -> int:
    """Print the parameters of all trials, and what the first trial would run. Start nothing."""
    from dataclasses import replace

    import msgspec

    from windlass.authoring.prepare.job_spec import prepare_job
    from windlass.cli.output.json import print_json
    from windlass.cli.output.text import counted
    from windlass.client.dry_run.client import DryClient
    from windlass.comparison.tables import Table
    from windlass.search.settings import DEFAULT_TRIALS

    experiment = sweep.experiment or sweep.default_experiment
    is_grid = method == "grid"
    number = len(sweep.combinations) if is_grid else trials or DEFAULT_TRIALS
    if as_json:
        space = {name: repr(space) for name, space in sweep.spaces.items()}
        facts = {"experiment": experiment, "method": method, "trials": number, "sweep": space}
        print_json({**facts, "params": sweep.combinations} if is_grid else facts)
        return 0
    how = "in a grid" if is_grid else f"chosen by {method}"
    print(f"{counted(number, 'trial')} {how}. The first one, as an example:\n")
    example = {name: space.example for name, space in sweep.spaces.items()}
    job, _ = with_arguments(sweep.job, example)
    client = DryClient()
    prepared = prepare_job(job, lambda: client)
    where = msgspec.structs.replace(prepared.where, experiment=experiment)
    prepared = replace(prepared, where=where)
    client.preview(prepared.draft(client)).show()
    print()
    if is_grid:
        print(Table(list(sweep.spaces), sweep.combinations))
        return 0
    rows = [{"parameter": name, "values": repr(space)} for name, space in sweep.spaces.items()]
    print(Table(["parameter", "values"], rows))
    return 0
