"""The questions a program asks, as functions: those of the default client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from windlass.client.calls import users_call
from windlass.client.experiments import Experiment
from windlass.client.session import default_client
from windlass.client.trials import Trial

if TYPE_CHECKING:
    from windlass.authoring.executables import Executable
    from windlass.authoring.packaged import Packaged


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


@users_call("wl.create_experiment")
def create_experiment(
    name: str,
    project: str | None = None,
    labels: Sequence[str] = (),
    description: str = "",
    config: Mapping[str, Any] | None = None,
    *,
    exist_ok: bool = False,
    wait: bool = False,
    dry_run: bool = False,
) -> Experiment:
    """A new experiment, made at once. Another of the same name may exist: their ids differ.

    ```python
    exp = wl.create_experiment("sweep", labels=["paper"], config={"seed": 7})
    exp.add(wl.Job(wl.Command(["echo"])), args={"lr": 0.1})
    ```

    Args:
        name: what it is called.
        project: the project it belongs to ("default").
        labels: texts to find it by.
        description: what it is about.
        config: what is to be remembered of how it was set up: anything that JSON can say.
        exist_ok: whether to take the one of that name in the project, if there is one, as it is:
            a script that is started again goes on with it.
        wait: whether the end of a `with` block waits for its trials, too, with a live table, and
            raises `wl.ExperimentFailed` if some did not succeed.
        dry_run: whether to show what would run instead, and start nothing, not even the server:
            whatever is added is a trial that did not run.
    """
    client = default_client()
    if dry_run:
        from windlass.client.dry import DryClient

        client = DryClient()
    return client.create_experiment(
        name, project, labels, description, config, exist_ok=exist_ok, wait=wait
    )


def package(executables: Sequence[Executable | Packaged]) -> list[Packaged]:
    """Snapshot the code of executables now and upload it; they are returned in their order.

    ```python
    [echo] = wl.package([wl.Command(["echo", "hello"])])
    wl.Job(echo).run()
    ```

    What is edited afterwards is not in them. A tree that the server has already is not sent
    again, and has the same hash (`tree`).
    """
    return default_client().package(executables)


def get_experiment(id_or_name: int | str) -> Experiment:
    """The experiment of that id or name; a name that several have is refused with their ids.

    ```python
    print(wl.get_experiment("train").states)
    ```
    """
    return default_client().get_experiment(id_or_name)


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


def compare(
    trials: Iterable[Trial[Any] | int],
    metrics: Sequence[str] | str | None = None,
    sort_by: str | None = None,
) -> Any:
    """Some trials (or ids) in a table: parameters that differ, summary metrics, state, duration.

    A data frame of pandas if that is installed, else of polars, else a `wl.Table`; `metrics` and
    `sort_by` as for `Experiment.table`.

    ```python
    print(wl.compare([1, 2, 3], sort_by="lr"))
    ```
    """
    from windlass.client import comparison

    transport = default_client().transport
    return comparison.compare(transport, trials, metrics=metrics, sort_by=sort_by)
