"""The questions a program asks, as functions: those of the default client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from windlass.client.experiments import Experiment
from windlass.client.session import default_client
from windlass.client.trials import Trial


def get_trial(trial_id: int) -> Trial[Any]:
    """The trial with that id.

    ```python
    print(wl.get_trial(3).result())
    ```
    """
    return default_client().get_trial(trial_id)


def list_trials(
    *,
    experiment: str | None = None,
    project: str | None = None,
    state: str | list[str] | None = None,
    name: str | None = None,
    labels: str | Sequence[str] | None = None,
    sort_by: str = "id",
    limit: int | None = None,
) -> Iterator[Trial[Any]]:
    """Trials that match, lazily, a page at a time; `sort_by="-created"` is newest first.

    With `labels`, those that have all of them.

    ```python
    for trial in wl.list_trials(state="FAILED", sort_by="-created"):
        print(trial.id, trial.message)
    ```
    """
    return default_client().list_trials(
        experiment=experiment,
        project=project,
        state=state,
        name=name,
        labels=labels,
        sort_by=sort_by,
        limit=limit,
    )


def get_experiment(name: str | int) -> Experiment:
    """The experiment of that name (the newest, if there are several) or id.

    ```python
    print(wl.get_experiment("train").states)
    ```
    """
    return default_client().get_experiment(name)


def list_experiments(
    *,
    project: str | None = None,
    name: str | None = None,
    labels: str | Sequence[str] | None = None,
    sort_by: str = "id",
    limit: int | None = None,
) -> Iterator[Experiment]:
    """Experiments that match, lazily, a page at a time; with `labels`, those that have them all.

    ```python
    for experiment in wl.list_experiments():
        print(experiment.name, experiment.trial_count)
    ```
    """
    return default_client().list_experiments(
        project=project, name=name, labels=labels, sort_by=sort_by, limit=limit
    )
