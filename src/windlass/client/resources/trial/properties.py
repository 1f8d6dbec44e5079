"""The properties of a trial, read from its record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from windlass.client.connection.transport import Transport, request_path
from windlass.client.resources.metadata import Described
from windlass.model.hardware.resources import Resources
from windlass.model.records import (
    Attempt,
    Cause,
    ErrorInfo,
    Provenance,
    Summary,
    TrialRecord,
)
from windlass.model.requests import ChangeTrial
from windlass.model.status import Condition, Event

if TYPE_CHECKING:
    from typing_extensions import Self

    from windlass.client.resources.trial.replicas import Replica
    from windlass.model.job import Code


class TrialProperties(Described[TrialRecord]):
    """The part of `wl.Trial` that only reads the record. `trial.py` has the rest."""

    _collection = "trials"
    _record_type = TrialRecord
    _change_type = ChangeTrial

    def __init__(self, transport: Transport, record: TrialRecord) -> None:
        super().__init__(transport, record)
        self._events: list[Event] | None = None

    @property
    def kind(self) -> str:
        """The kind of trial, as `wl.list_trials(kind=...)` takes it.

        `job` is a trial of `@wl.run`, `wl.Job` or `windlass run`, of functions and scripts alike;
        the others are `external`, `command` and `shell`.

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
    def project(self) -> str:
        """The project of the trial's experiment."""
        return self._record.project

    @property
    def state(self) -> str:
        """The state, one of nine.

        QUEUED, STARTING, RUNNING, RESTARTING, SUSPENDED, STOPPING, SUCCEEDED, FAILED or STOPPED.
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
        """The hyper-parameters: the recorded arguments of the function or command.

        Lists of trials can be filtered and sorted by them:
        `wl.list_trials(where="hparams.lr < 0.1")`.

        ```python
        print(wl.get_trial(3).hparams)
        ```
        """
        return self._record.params

    @property
    def params(self) -> dict[str, Any]:
        """The same as `hparams`."""
        return self._record.params

    @property
    def started(self) -> float | None:
        """The time at which the first process of the trial started, in seconds since the epoch."""
        return self._record.started

    @property
    def ended(self) -> float | None:
        """The time of the trial's end, in seconds since the epoch."""
        return self._record.ended

    @property
    def exit_code(self) -> int | None:
        """The exit code of the attempt that decided; 128 + N for signal N."""
        return self._record.exit_code

    @property
    def summary_metrics(self) -> Mapping[str, Summary]:
        """A summary of each metric by name: `count`, `min`, `max`, `mean`, `last`, `step`.

        All replicas count, and each step of a replica counts once: a later attempt replaces the
        values of an earlier one from its first step on. NaN counts, but is neither `min` nor `max`;
        the mean covers the finite values; `last` is the newest value, reported at `step`.

        ```python
        loss = trial.refresh().summary_metrics["loss"]
        print(loss.last, "at step", loss.step, "least", loss.min)
        ```
        """
        from windlass.client.resources.trial.metrics import Summaries

        return Summaries(self._record)

    @property
    def progress(self) -> float | None:
        """The progress from 0 to 1 that `wl.report_progress` reported last, or None.

        ```python
        print(f"{trial.refresh().progress or 0:.0%}")
        ```
        """
        return self._record.progress

    @property
    def asked_to_stop(self) -> str:
        """The reason that `ask_to_stop` got; empty if it was not called."""
        return self._record.asked_to_stop

    @property
    def error(self) -> ErrorInfo | None:
        """The exception that the function raised, as text."""
        return self._record.error

    @property
    def cause(self) -> Cause | None:
        """The first failure: its replica (`role`, `index`, `attempt`), exit code and last lines.

        ```python
        if trial.cause:
            print(trial.cause.role, trial.cause.exit_code, *trial.cause.lines, sep="\\n")
        ```
        """
        return self._record.cause

    @property
    def restarts(self) -> int:
        """The number of restarts."""
        return self._record.restarts

    @property
    def replicas(self) -> tuple[Replica, ...]:
        """The replicas, each with its newest attempt: phase, exit code, node, address, times.

        ```python
        for replica in trial.replicas:
            print(replica.name, replica.phase, replica.exit_code)
        ```
        """
        from windlass.client.resources.trial.replicas import replicas_of

        return replicas_of(self._record)

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """All attempts, with times and exit codes."""
        return self._record.attempts

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions, each with the time and reason of its last change."""
        return self._record.conditions

    @property
    def events(self) -> list[Event]:
        """The events, oldest first; fetched once, and again after `refresh()`.

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
        """The priority in the queue: a higher priority starts first. `set_priority` changes it."""
        return self._record.spec.priority

    @property
    def resources(self) -> Resources:
        """The resources that each replica of the first role requests."""
        return self._record.spec.roles[0].resources

    @property
    def config(self) -> dict[str, Any]:
        """The roles, arguments, resources, policies and code, as plain data for JSON.

        The names are those of `wl.Job`, so any part can be used again. Secrets appear with their
        names only: their values are never recorded.

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
        """The user, machine, Python, packages and git commit at submission."""
        return self._record.provenance

    @property
    def template(self) -> str:
        """The name of the job's template; empty without a template."""
        return self._record.recipe.template

    @property
    def directory(self) -> str:
        """The folder of the trial's files, on the server's machine."""
        return self._record.directory

    def _replace(self, record: TrialRecord) -> Self:
        self._events = None  # the trial has had more events since
        return super()._replace(record)
