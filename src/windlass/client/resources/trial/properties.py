"""The properties of a trial that only read its record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from windlass.client.connection.transport import Transport, request_path
from windlass.client.resources.metadata import Described
from windlass.model.hardware.resources import Resources
from windlass.model.records import (
    Cause,
    ErrorInfo,
    Provenance,
    Summary,
    TrialRecord,
)
from windlass.model.requests import ChangeTrial
from windlass.model.status import Condition, Event
from windlass.model.text.times import to_datetime

if TYPE_CHECKING:
    from datetime import datetime

    from typing_extensions import Self

    from windlass.client.resources.trial.replicas import Replica
    from windlass.model.job import Code


class TrialProperties(Described[TrialRecord]):
    """The properties of `wl.Trial` that only read the record. `trial.py` has the other members."""

    _collection = "trials"
    _record_type = TrialRecord
    _change_type = ChangeTrial

    def __init__(self, transport: Transport, record: TrialRecord) -> None:
        super().__init__(transport, record)
        self._events: list[Event] | None = None

    @property
    def kind(self) -> str:
        """The kind of the trial: `job`, `external`, `command` or `shell`.

        All trials of `@wl.run`, `wl.Job` and `windlass run` have the kind `job`.
        `wl.list_trials(kind=...)` can filter by kind.

        ```python
        print(wl.get_trial(3).kind)
        ```
        """
        return self._record.kind.value

    @property
    def experiment(self) -> str:
        """The name of the trial's experiment."""
        return self._record.experiment

    @property
    def experiment_id(self) -> int:
        """The id of the trial's experiment. Several experiments may have the same name.

        ```python
        experiment = wl.get_experiment(wl.get_trial(3).experiment_id)
        ```
        """
        return self._record.experiment_id

    @property
    def project(self) -> str:
        """The name of the project that contains the trial's experiment."""
        return self._record.project

    @property
    def state(self) -> str:
        """The state of the trial.

        The states are QUEUED, STARTING, RUNNING, RESTARTING, SUSPENDED, STOPPING, SUCCEEDED, FAILED
        and STOPPED.
        """
        return self._record.state.value

    @property
    def is_finished(self) -> bool:
        """Whether the trial has ended, with or without success."""
        return self._record.state.is_final

    @property
    def message(self) -> str:
        """The reason why the trial waits or has ended."""
        return self._record.message

    @property
    def hparams(self) -> dict[str, Any]:
        """The hyper-parameters, which are the recorded arguments of the function or command.

        `wl.list_trials` can filter and sort by hyper-parameters, for example with
        `where="hparams.lr < 0.1"`.

        ```python
        print(wl.get_trial(3).hparams)
        ```
        """
        return self._record.params

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of the trial, which are the same as `hparams`."""
        return self._record.params

    @property
    def started(self) -> datetime | None:
        """The time in UTC at which the first process of the trial started, or None."""
        return to_datetime(self._record.started)

    @property
    def ended(self) -> datetime | None:
        """The time in UTC at which the trial ended, or None."""
        return to_datetime(self._record.ended)

    @property
    def exit_code(self) -> int | None:
        """The exit code of the attempt that decided the outcome.

        A signal N gives the code 128 + N.
        """
        return self._record.exit_code

    @property
    def summary_metrics(self) -> Mapping[str, Summary]:
        """A mapping from metric names to summaries.

        A summary has `count`, `min`, `max`, `mean`, `last` and `step`. It covers all replicas. Each
        step of a replica counts once, because a later attempt replaces the values of earlier
        attempts from its first step on. NaN values are included in `count`, but are never `min` or
        `max`. `mean` is the mean of the finite values. `last` is the newest value, and `step` is
        its step.

        ```python
        loss = trial.refresh().summary_metrics["loss"]
        print(loss.last, "at step", loss.step, "least", loss.min)
        ```
        """
        from windlass.client.resources.trial.metrics import Summaries

        return Summaries(self._record)

    @property
    def progress(self) -> float | None:
        """The last progress that `wl.report_progress` reported, from 0 to 1, or None.

        ```python
        print(f"{trial.refresh().progress or 0:.0%}")
        ```
        """
        return self._record.progress

    @property
    def asked_to_stop(self) -> str:
        """The reason that was passed to `ask_to_stop`, or "" if nobody called this method."""
        return self._record.asked_to_stop

    @property
    def error(self) -> ErrorInfo | None:
        """The text of the exception that the function raised."""
        return self._record.error

    @property
    def cause(self) -> Cause | None:
        """The first failed attempt of the trial, or None.

        It has the attributes `role`, `index`, `attempt`, `exit_code` and `lines` (the last log
        lines).

        ```python
        if trial.cause:
            print(trial.cause.role, trial.cause.exit_code, *trial.cause.lines, sep="\\n")
        ```
        """
        return self._record.cause

    @property
    def restarts(self) -> int:
        """The number of restarts of the trial."""
        return self._record.restarts

    @property
    def replicas(self) -> tuple[Replica, ...]:
        """The replicas.

        Each has the phase, exit code, node, address and times of its newest attempt.

        ```python
        for replica in trial.replicas:
            print(replica.name, replica.phase, replica.exit_code)
        ```
        """
        from windlass.client.resources.trial.replicas import replicas_of

        return replicas_of(self._record)

    @property
    def attempts(self) -> tuple[Replica, ...]:
        """All attempts of all replicas, with times and exit codes."""
        from windlass.client.resources.trial.replicas import attempts_of

        return attempts_of(self._record)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions of the trial, each with the time and reason of its last change."""
        return self._record.conditions

    @property
    def events(self) -> list[Event]:
        """The events of the trial, oldest first.

        They are fetched once, and again after `refresh()`.

        ```python
        for event in trial.refresh().events:
            print(event.time, event.reason, event.message)
        ```
        """
        if self._events is None:
            path = request_path("trials", self.id, "events")
            self._events = self._transport.ask("GET", path, list[Event])
        return self._events

    @property
    def priority(self) -> int:
        """The priority of the trial in the queue. Trials with a higher priority start first.

        `set_priority` changes the priority.
        """
        return self._record.spec.priority

    @property
    def resources(self) -> Resources:
        """The resources that each replica of the first role requests."""
        return self._record.spec.roles[0].resources

    @property
    def config(self) -> dict[str, Any]:
        """The roles, arguments, resources, policies and code of the trial, as JSON data.

        The names are those of `wl.Job`, so each part can be used for a new job. Only the names of
        secrets are included, because their values are never recorded.

        ```python
        trial = train.submit(0.1)
        main = trial.config["roles"]["main"]
        print(main["args"], main["executor"], trial.config["backoff_limit"])
        job = wl.Job(wl.Command(["true"]), executor=wl.Local(**main["executor"]))
        ```
        """
        from windlass.client.resources.trial.config import config_of

        return config_of(self._record)

    @property
    def code(self) -> Code:
        """The code snapshot of the trial."""
        return self._record.spec.code

    @property
    def provenance(self) -> Provenance:
        """The user, machine, Python version, packages and git commit at the time of submission."""
        return self._record.provenance

    @property
    def template(self) -> str:
        """The name of the template that the job used, or "" if it used none."""
        return self._record.recipe.template

    @property
    def directory(self) -> str:
        """The folder of the trial's files, on the server's machine."""
        return self._record.directory

    def _replace(self, record: TrialRecord) -> Self:
        self._events = None  # the trial has new events since the last request
        return super()._replace(record)
