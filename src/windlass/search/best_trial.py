"""Finds the best trial of an experiment, whether or not a search added it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from windlass.model.errors import InvalidArgument, NotFound, shown
from windlass.model.metrics import near_metric
from windlass.model.records import ExperimentRecord
from windlass.search.values import last_value

if TYPE_CHECKING:
    from windlass.client.resources.experiment.experiment import Experiment
    from windlass.client.resources.trial.trial import Trial


def best(experiment: Experiment, metric: str | None, mode: str | None) -> Trial[Any]:
    """Return the successful trial with the best value of a metric.

    If several trials have the same value, return the first.
    """
    metric, mode = _looked_for(experiment.refresh().record, metric, mode)
    best_trial: Trial[Any] | None = None
    least = math.inf
    reported: set[str] = set()
    for trial in experiment.list_trials(state="SUCCEEDED"):
        reported |= set(trial.record.metrics)
        if trial.record.was_pruned or trial.record.auxiliary:
            continue
        value = last_value(trial, metric)
        if value is None or math.isnan(value):
            continue
        order = value if mode == "min" else -value
        if best_trial is None or order < least:
            best_trial, least = trial, order
    if best_trial is None:
        near = near_metric(metric, reported)
        suggestion = f"Did you mean {near!r}? " if near and metric not in reported else ""
        suggestion += (
            f"They reported {', '.join(sorted(reported))}." if reported else "None reported any."
        )
        raise NotFound(
            f"No trial of experiment {experiment.id} ({experiment.name}) has succeeded with a "
            f"value of {metric!r}.",
            hint=suggestion,
        )
    return best_trial


def _looked_for(record: ExperimentRecord, metric: str | None, mode: str | None) -> tuple[str, str]:
    """Return the metric and mode to use.

    Unless the caller passes both, they come from the only search in the experiment that fits.
    """
    if mode not in (None, "min", "max"):
        raise InvalidArgument(f'mode is {shown(mode)}; it must be "min" or "max".')
    searched = {
        (search.get("metric", ""), search.get("mode", "")) for search in record.searches.values()
    }
    fitting = {pair for pair in searched if metric in (None, pair[0]) and mode in (None, pair[1])}
    if len(fitting) == 1 and (metric is None or mode is None):
        return fitting.pop()
    if metric is not None and mode is not None:
        return metric, mode
    what = "metric" if metric is None else "mode"
    why = "has several searches" if len(fitting) > 1 else "has no search that fits"
    raise InvalidArgument(
        f"exp.best needs a {what}, because experiment {record.id} ({record.name}) {why}.",
        hint=_written(metric, mode),
    )


def _written(metric: str | None, mode: str | None) -> str:
    """Return a hint with the corrected call.

    >>> print(_written("acc", None))
    If lower is better, write exp.best('acc', 'min'). Otherwise, write exp.best('acc', 'max').
    >>> print(_written(None, "max"))
    For example: exp.best('val_loss', 'max')
    """
    if metric is not None:
        less, more = (f"exp.best({shown(metric)}, {way!r})" for way in ("min", "max"))
        return f"If lower is better, write {less}. Otherwise, write {more}."
    return f"For example: exp.best('val_loss', {mode or 'min'!r})"
