"""Compares two experiments by their metadata, parameters and metrics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from windlass.comparison.changes import Change, find_changes, flat, is_same, plain
from windlass.comparison.settings import is_builder, trees_of
from windlass.comparison.trials import Diff, differing_parts
from windlass.model.records import ExperimentRecord, TrialRecord, own_metrics


class ExperimentSide(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two compared experiments. `trees` is the number of code versions in its trials."""

    id: int
    name: str
    state: str
    trials: int
    trees: int
    newest: int | None = None  # the trial whose code and environment are compared


class TriedParameter(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter with its distinct values in each experiment's trials."""

    name: str
    before: tuple[Any, ...] = ()
    after: tuple[Any, ...] = ()


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """The range of a metric's last values in one experiment.

    `min_id` and `max_id` are the ids of the trials with the lowest and highest value.
    """

    trials: int
    min: float
    max: float
    min_id: int
    max_id: int


class MetricSpread(msgspec.Struct, frozen=True, kw_only=True):
    """A metric's ranges in two experiments.

    A side is None if none of that experiment's trials reported the metric.
    """

    name: str
    before: Spread | None = None
    after: Spread | None = None


class ExperimentDiff(msgspec.Struct, frozen=True, kw_only=True):
    """The differences between two experiments. Equal values are left out.

    For code, environment and resources, the field `newest` compares the newest trials of the two
    experiments. `parameters` contains the values that the trials used. `metrics` contains the
    lowest and highest of the last values.

    ```python
    train.options(experiment="bolder")(0.9)
    diff = wl.get_experiment("train").diff("bolder")
    print(diff)
    for tried in diff.parameters:
        print(tried.name, tried.before, tried.after)
    ```
    """

    before: ExperimentSide
    after: ExperimentSide
    about: tuple[Change, ...] = ()  # name, labels, description and other metadata
    config: tuple[Change, ...] = ()
    parameters: tuple[TriedParameter, ...] = ()
    newest: Diff | None = None  # the differences between the newest trials
    metrics: tuple[MetricSpread, ...] = ()
    states: tuple[Change, ...] = ()  # the numbers of trials in each state

    @property
    def is_same(self) -> bool:
        """True if the two experiments differ at most in names and descriptions."""
        differences: tuple[Any, ...] = (self.config, self.parameters, self.metrics, self.states)
        if self.newest is not None:  # the arguments are compared as parameters instead
            new = self.newest
            differences += (new.code, new.git, new.environment, new.packages, new.settings)
        return not any(differences)

    def to_dict(self) -> dict[str, Any]:
        """Return the diff as JSON values."""
        return {"is_same": self.is_same, **plain(self)}

    def __str__(self) -> str:
        from windlass.comparison.experiment_diff_text import format_experiment_diff

        return format_experiment_diff(self)

    def __repr__(self) -> str:
        names = [name for name in _PARTS if getattr(self, name)]
        names += ["newest trials"] if self.newest and not self.newest.is_same_setup else []
        which = f"{self.before.id} and {self.after.id}"
        return f"<ExperimentDiff of experiments {which}: {differing_parts(names)}>"

    def _repr_html_(self) -> str:
        from windlass.comparison.experiment_diff_text import experiment_diff_lines
        from windlass.display.html.lines import lines_page

        return lines_page(experiment_diff_lines(self), rest="print(diff) shows all of them.")


_PARTS = ("about", "config", "parameters", "metrics", "states")


def ordinary(trials: Iterable[TrialRecord]) -> list[TrialRecord]:
    """Return the trials that run a program, leaving out generators and auxiliary trials."""
    return [trial for trial in trials if not trial.auxiliary and not is_builder(trial)]


def newest_of(trials: Sequence[TrialRecord]) -> TrialRecord | None:
    """Return the newest trial with recorded code.

    If none has recorded code, return the newest trial. Without any trials, return None.
    """
    with_code = [trial for trial in trials if any(trees_of(trial.spec).values())]
    return max(with_code or trials, key=lambda trial: trial.id, default=None)


def diff_experiments(
    before: tuple[ExperimentRecord, Sequence[TrialRecord]],
    after: tuple[ExperimentRecord, Sequence[TrialRecord]],
    newest: Diff | None,
) -> ExperimentDiff:
    """Compare two experiments by their records and trials."""
    (old, old_trials), (new, new_trials) = before, after
    return ExperimentDiff(
        before=_side(old, old_trials),
        after=_side(new, new_trials),
        about=find_changes(_about(old), _about(new)),
        config=find_changes(flat(old.config), flat(new.config)),
        parameters=_tried(old_trials, new_trials),
        newest=newest,
        metrics=_metrics(old_trials, new_trials),
        states=find_changes(_states(old_trials), _states(new_trials)),
    )


def _side(record: ExperimentRecord, trials: Sequence[TrialRecord]) -> ExperimentSide:
    newest = newest_of(trials)
    trees = {tree for trial in trials for tree in trees_of(trial.spec).values() if tree}
    return ExperimentSide(
        id=record.id,
        name=record.name,
        state=record.state.value,
        trials=len(trials),
        trees=len(trees),
        newest=newest.id if newest else None,
    )


def _about(record: ExperimentRecord) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "name": record.name,
        "project": record.project,
        "labels": sorted(record.labels),
        "description": record.description,
        "notes": record.notes,
    }
    fields |= {f"link {link.name}": link.url for link in record.links}
    fields |= {f"artifact {artifact.name}": artifact.digest[:12] for artifact in record.artifacts}
    return {name: value for name, value in fields.items() if value not in ("", [])}


def _states(trials: Sequence[TrialRecord]) -> dict[str, int]:
    states = [trial.state.value for trial in trials]
    return {state: states.count(state) for state in sorted(set(states))}


def _tried(old: Sequence[TrialRecord], new: Sequence[TrialRecord]) -> tuple[TriedParameter, ...]:
    before, after = _values(old), _values(new)
    return tuple(
        TriedParameter(
            name=name, before=tuple(before.get(name, ())), after=tuple(after.get(name, ()))
        )
        for name in dict.fromkeys([*before, *after])
        if not _same_values(before.get(name, []), after.get(name, []))
    )


def _values(trials: Sequence[TrialRecord]) -> dict[str, list[Any]]:
    """Return each parameter's distinct values, in the order of the trials."""
    values_by_name: dict[str, dict[str, Any]] = {}
    for trial in trials:
        for name, value in flat(trial.params).items():
            values_by_name.setdefault(name, {}).setdefault(repr(value), value)
    return {name: list(values.values()) for name, values in values_by_name.items()}


def _same_values(before: Sequence[Any], after: Sequence[Any]) -> bool:
    return is_same(sorted(before, key=repr), sorted(after, key=repr))


def _metrics(old: Sequence[TrialRecord], new: Sequence[TrialRecord]) -> tuple[MetricSpread, ...]:
    names = sorted({name for trial in [*old, *new] for name in own_metrics(trial.metrics)})
    spreads = [
        MetricSpread(name=name, before=_spread(old, name), after=_spread(new, name))
        for name in names
    ]
    return tuple(spread for spread in spreads if not _same_spread(spread))


def _spread(trials: Sequence[TrialRecord], name: str) -> Spread | None:
    last = [(t.metrics[name].last, t.id) for t in trials if name in t.metrics]
    numbers = [
        (value, trial_id) for value, trial_id in last if value is not None and value == value
    ]
    if not numbers:
        return None
    (least, least_id), (most, most_id) = min(numbers), max(numbers)
    return Spread(trials=len(numbers), min=least, max=most, min_id=least_id, max_id=most_id)


def _same_spread(metric: MetricSpread) -> bool:
    before, after = metric.before, metric.after
    if before is None or after is None:
        return before is after
    return (before.trials, before.min, before.max) == (after.trials, after.min, after.max)
