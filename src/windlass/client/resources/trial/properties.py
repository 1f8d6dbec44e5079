"""A trial's properties that only read its record."""

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
    """Properties of `wl.Trial` that only read the record. Its other members are in `trial.py`."""

    _collection = "trials"
    _record_type = TrialRecord
    _change_type = ChangeTrial

    def __init__(self, transport: Transport, record: TrialRecord) -> None:
        super().__init__(transport, record)
        self._events: list[Event] | None = None

    @property
    def kind(self) -> str:
        """The trial's kind: `job`, `external`, `command` or `shell`.

        All trials created by `@wl.run`, `wl.Job` and `windlass run` have the kind `job`. To filter
        by kind, use `wl.list_trials(kind=...)`.

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
        """The id of the trial's experiment, which is unique, unlike its name.

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
        """The trial's state.

        The state is QUEUED, STARTING, RUNNING, RESTARTING, SUSPENDED, STOPPING, SUCCEEDED, FAILED
        or STOPPED.
        """
        return self._record.state.value

    @property
    def is_finished(self) -> bool:
        """Whether the trial has ended, with or without success."""
        return self._record.state.is_final

    @property
    def message(self) -> str:
        """Why the trial is waiting or how it ended."""
        return self._record.message

    @property
    def hparams(self) -> dict[str, Any]:
        """The hyper-parameters: the recorded arguments of the function or command.

        `wl.list_trials` can filter and sort by hyper-parameters, for example with
        `where="hparams.lr < 0.1"`.

        ```python
        print(wl.get_trial(3).hparams)
        ```
        """
        return self._record.params

    @property
    def params(self) -> dict[str, Any]:
        """The trial's parameters, the same as `hparams`."""
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

        For an attempt ended by signal N, it is 128 + N.
        """
        return self._record.exit_code

    @property
    def summary_metrics(self) -> Mapping[str, Summary]:
        """A mapping from metric names to summaries.

        A summary has `count`, `min`, `max`, `mean`, `last` and `step`, and covers all replicas. If
        a replica reports a step in several attempts, only the latest attempt counts: it replaces
        earlier attempts' values from its own first step on. `count` includes NaN values, but `min`
        and `max` are never NaN. `mean` is the mean of the finite values. `last` is the newest
        value, and `step` is its step.

        ```python
        loss = trial.refresh().summary_metrics["loss"]
        print(loss.last, "at step", loss.step, "least", loss.min)
        ```
        """
        from windlass.client.resources.trial.metrics import Summaries

        return Summaries(self._record)

    @property
    def progress(self) -> float | None:
        """The last progress reported with `wl.report_progress`, from 0 to 1, or None.

        ```python
        print(f"{trial.refresh().progress or 0:.0%}")
        ```
        """
        return self._record.progress

    @property
    def asked_to_stop(self) -> str:
        """The reason passed to `ask_to_stop`, or "" if the method was not called."""
        return self._record.asked_to_stop

    @property
    def error(self) -> ErrorInfo | None:
        """The text of the exception raised by the trial's function."""
        return self._record.error

    @property
    def cause(self) -> Cause | None:
        """The trial's first failed attempt, or None.

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
        """The trial's number of restarts."""
        return self._record.restarts

    @property
    def replicas(self) -> tuple[Replica, ...]:
        """The trial's replicas.

        Each replica shows the phase, exit code, node, address and times of its newest attempt.

        ```python
        for replica in trial.replicas:
            print(replica.name, replica.phase, replica.exit_code)
        ```
        """
        from windlass.client.resources.trial.replicas import replicas_of

        return replicas_of(self._record)

    @property
    def attempts(self) -> tuple[Replica, ...]:
        """All attempts of the trial's replicas, with times and exit codes."""
        from windlass.client.resources.trial.replicas import attempts_of

        return attempts_of(self._record)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The trial's conditions, each with the time and reason of its last change."""
        return self._record.conditions

    @property
    def events(self) -> list[Event]:
        """The trial's events, oldest first.

        They are fetched on first access, and again after `refresh()`.

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
        """The trial's priority in the queue. Trials with a higher priority start first.

        To change the priority, call `set_priority`.
        """
        return self._record.spec.priority

    @property
    def resources(self) -> Resources:
        """The resources that each replica of the first role requests."""
        return self._record.spec.roles[0].resources

    @property
    def config(self) -> dict[str, Any]:
        """The trial's roles, arguments, resources, policies and code, as JSON data.

        The names are the same as in `wl.Job`, so that you can reuse each part in a new job. Secrets
        are included without their values, which are never recorded.

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
        """The trial's code snapshot."""
        return self._record.spec.code

    @property
    def provenance(self) -> Provenance:
        """The user, machine, Python version, packages and git commit recorded at submission."""
        return self._record.provenance

    @property
    def template(self) -> str:
        """The name of the template that the job used, or ""."""
        return self._record.recipe.template

    @property
    def directory(self) -> str:
        """The folder with the trial's files, on the server's machine."""
        return self._record.directory

    def _replace(self, record: TrialRecord) -> Self:
        self._events = None  # there may be new events since the last request
        return super()._replace(record)
