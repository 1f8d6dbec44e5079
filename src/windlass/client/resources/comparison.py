"""Compares trials and experiments, fetching only contents that differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from windlass.client.connection.blobs import fetch_blobs, fetch_lists
from windlass.client.connection.transport import Transport, request_path
from windlass.model.errors import InvalidArgument, ServerError, shown
from windlass.model.records import ExperimentRecord, TrialRecord

if TYPE_CHECKING:
    from windlass.client.resources.experiment.experiment import Experiment
    from windlass.client.resources.trial.trial import Trial
    from windlass.comparison.code_diff import Row
    from windlass.comparison.experiments import ExperimentDiff
    from windlass.comparison.trials import Diff


def diff_trials(transport: Transport, before: TrialRecord, after: TrialRecord) -> Diff:
    """Return the differences between two trials.

    One request fetches the lists of files and packages, and another fetches the files that differ.
    """
    from windlass.comparison import trials

    trees = trials.wanted_trees(before, after)
    lists = trials.wanted_lists(before, after)
    fetched = fetch_lists(transport, [*trees, *lists])
    materials = trials.Materials(
        trees={tree: _files_of(fetched[tree]) for tree in trees if tree in fetched},
        blobs={digest: fetched[digest] for digest in lists if digest in fetched},
    )
    files = trials.wanted_files(before, after, materials.trees)
    if files:
        materials.blobs |= fetch_blobs(transport, files)
    return trials.diff_trials(before, after, materials)


def _files_of(manifest: bytes) -> Sequence[Row]:
    from windlass.packaging.manifest import parse_manifest

    try:
        return parse_manifest(manifest)
    except ValueError as error:
        raise ServerError(
            f"The server's list of the files of a tree is damaged: {error}."
        ) from error


def diff_with(trial: Trial[Any], other: Trial[Any] | int) -> Diff:
    """Return the differences between a trial and `other`, which is a trial or a trial id."""
    from windlass.client.resources.trial.trial import Trial

    mine = newest_record(trial)
    if isinstance(other, Trial):
        record = newest_record(other)
    else:
        record = fetch_record(trial._transport, other)
    refuse_dry(mine, record)
    if record.uid == mine.uid:
        raise InvalidArgument(
            f"Trial {trial.id} cannot be compared with itself.", hint="Name another: trial.diff(7)"
        )
    return diff_trials(trial._transport, mine, record)


def diff_experiments(before: Experiment, after: Experiment) -> ExperimentDiff:
    """Return the differences between two experiments.

    For code and environment, compare the newest trials of the two experiments.
    """
    from windlass.comparison import experiments

    refuse_dry(before.record, after.record)
    if before.id == after.id:
        raise InvalidArgument(
            f"Experiment {before.id} ({before.name}) cannot be compared with itself.",
            hint="See: windlass ls --experiments",
        )
    sides = [
        (
            experiment.refresh().record,
            experiments.ordinary(trial.record for trial in experiment.list_trials()),
        )
        for experiment in (before, after)
    ]
    old, new = (experiments.newest_of(trials) for _, trials in sides)
    newest = diff_trials(before._transport, old, new) if old and new else None
    return experiments.diff_experiments(sides[0], sides[1], newest)


def compare(
    transport: Transport,
    trials: Iterable[Trial[Any] | int],
    *,
    metrics: Sequence[str] | str | None = None,
    sort_by: str | None = None,
) -> Any:
    """Return a table that compares trials, as a data frame if pandas or polars is installed."""
    from windlass.comparison.data_frame import to_data_frame
    from windlass.comparison.tables import build_table

    records = fetch_records(transport, trials)
    return to_data_frame(build_table(records, metrics=metrics, sort_by=sort_by))


def experiment_table(
    experiment: Experiment, metrics: Sequence[str] | str | None, sort_by: str | None
) -> Any:
    """Return a table of an experiment's trials, without trials that only add other trials."""
    from windlass.comparison.data_frame import to_data_frame
    from windlass.comparison.tables import build_table

    records = ordinary_records(experiment)
    return to_data_frame(build_table(records, metrics=metrics, sort_by=sort_by))


def ordinary_records(experiment: Experiment) -> list[TrialRecord]:
    """Return an experiment's trials, oldest first.

    Trials that only add other trials are omitted.
    """
    from windlass.comparison.experiments import ordinary

    refuse_dry(experiment.record)
    return ordinary(trial.record for trial in experiment.list_trials())


def fetch_records(transport: Transport, trials: Iterable[Trial[Any] | int]) -> list[TrialRecord]:
    """Return the records of trials to compare. Raise an error for fewer than two trials."""
    from windlass.client.resources.trial.trial import Trial

    if isinstance(trials, (int, str, Trial)) or not isinstance(trials, Iterable):
        raise InvalidArgument(
            f"{shown(trials)} is not a list of trials.",
            hint="Name at least two: wl.compare([3, 5])",
        )
    named = list(trials)
    refuse_dry(*(trial.record for trial in named if isinstance(trial, Trial)))
    ids = [trial.id if isinstance(trial, Trial) else trial for trial in named]
    check_ids(ids)
    return [
        newest_record(trial) if isinstance(trial, Trial) else fetch_record(transport, trial)
        for trial in named
    ]


def newest_record(trial: Trial[Any]) -> TrialRecord:
    """Return a trial's current record, without a request if the trial has finished."""
    return trial.record if trial.is_finished else trial.refresh().record


def refuse_dry(*records: TrialRecord | ExperimentRecord) -> None:
    """Raise an error for dry-run trials and experiments, because nothing ran."""
    if any(record.id == 0 for record in records):
        from windlass.client.dry_run.client import nothing_ran

        raise nothing_ran()


def check_ids(ids: Sequence[object]) -> None:
    """Raise an error for fewer than two trial ids or for duplicates."""
    twice = [trial_id for position, trial_id in enumerate(ids) if trial_id in ids[:position]]
    if twice:
        raise InvalidArgument(
            f"Trial {shown(twice[0])} is named twice.", hint="Name each trial once."
        )
    if len(ids) < 2:
        named = f"only {shown(ids[0])} was named" if ids else "none was named"
        raise InvalidArgument(
            f"A comparison needs at least two trials; {named}.", hint="See: windlass ls"
        )


def fetch_record(transport: Transport, trial_id: object) -> TrialRecord:
    """Fetch the record of the trial with the given id."""
    if isinstance(trial_id, bool) or not isinstance(trial_id, int):
        raise InvalidArgument(
            f"{shown(trial_id)} is neither a trial nor a trial id.", hint="See: windlass ls"
        )
    return transport.ask("GET", request_path("trials", trial_id), TrialRecord)
