"""What is known of a trial, as it was when its record was last asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from windlass.client.transport import Transport, path_of
from windlass.model.records import (
    Attempt,
    Cause,
    ErrorInfo,
    Provenance,
    Summary,
    TrialRecord,
)
from windlass.model.resources import Resources
from windlass.model.status import Condition, Event

if TYPE_CHECKING:
    from windlass.client.replicas import Replica
    from windlass.model.job import Code


class Facts:
    """The properties of a trial."""

    def __init__(self, transport: Transport, record: TrialRecord) -> None:
        self._transport = transport
        self._record = record
        self._events: list[Event] | None = None

    @property
    def id(self) -> int:
        """The number by which it is asked for."""
        return self._record.id

    @property
    def name(self) -> str:
        """What it is called: the function or script by default."""
        return self._record.name

    @property
    def kind(self) -> str:
        """What it is of, as `wl.list_trials(kind=...)` takes it.

        `job` is what `@wl.run`, `wl.Job` and `windlass run` make, of functions and scripts alike;
        the others are `external`, `command` and `shell`.

        ```python
        print(wl.get_trial(3).kind)
        ```
        """
        return self._record.kind.value

    @property
    def experiment(self) -> str:
        """The name of the experiment it belongs to."""
        return self._record.experiment

    @property
    def project(self) -> str:
        """The project its experiment belongs to."""
        return self._record.project

    @property
    def state(self) -> str:
        """One of QUEUED, STARTING, RUNNING, RESTARTING, SUSPENDED, STOPPING, SUCCEEDED,
        FAILED, STOPPED."""
        return self._record.state.value

    @property
    def is_finished(self) -> bool:
        """Whether it has ended, one way or another."""
        return self._record.state.is_final

    @property
    def message(self) -> str:
        """What it waits for, or why it ended."""
        return self._record.message

    @property
    def hparams(self) -> dict[str, Any]:
        """Its hyper-parameters: the arguments it was given, as they were recorded.

        Trials are found and sorted by them: `wl.list_trials(where="hparams.lr < 0.1")`.

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
    def created(self) -> float:
        """When it was submitted, in seconds since the epoch."""
        return self._record.created

    @property
    def started(self) -> float | None:
        """When its process first ran."""
        return self._record.started

    @property
    def ended(self) -> float | None:
        """When it ended."""
        return self._record.ended

    @property
    def exit_code(self) -> int | None:
        """The exit code of the attempt that decided; 128 + N for signal N."""
        return self._record.exit_code

    @property
    def summary_metrics(self) -> Mapping[str, Summary]:
        """What it reported, each metric by its name: `count`, `min`, `max`, `mean`, `last`, `step`.

        All replicas count, and each step of a replica once: from its first step on, a later attempt
        has the say. NaN counts and is neither least nor greatest; the mean is that of the finite
        ones; `last` is what was reported last, at `step`.

        ```python
        loss = trial.refresh().summary_metrics["loss"]
        print(loss.last, "at step", loss.step, "least", loss.min)
        ```
        """
        from windlass.client.metrics import Summaries

        return Summaries(self._record)

    @property
    def progress(self) -> float | None:
        """How much of it is done, from 0 to 1, as `wl.report_progress` said last; None if never.

        ```python
        print(f"{trial.refresh().progress or 0:.0%}")
        ```
        """
        return self._record.progress

    @property
    def asked_to_stop(self) -> str:
        """Why it was asked to end by itself; empty if it was not."""
        return self._record.asked_to_stop

    @property
    def error(self) -> ErrorInfo | None:
        """What its function raised, as text."""
        return self._record.error

    @property
    def cause(self) -> Cause | None:
        """The end that made it fail: whose (`role`, `index`, `attempt`), of what, its last lines.

        ```python
        if trial.cause:
            print(trial.cause.role, trial.cause.exit_code, *trial.cause.lines, sep="\\n")
        ```
        """
        return self._record.cause

    @property
    def restarts(self) -> int:
        """How often it was started again."""
        return self._record.restarts

    @property
    def replicas(self) -> tuple[Replica, ...]:
        """Its replicas, each as its newest attempt stands: phase, exit code, node, address, times.

        ```python
        for replica in trial.replicas:
            print(replica.name, replica.phase, replica.exit_code)
        ```
        """
        from windlass.client.replicas import replicas_of

        return replicas_of(self._record)

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Every attempt there was, with times and exit codes."""
        return self._record.attempts

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What can be said of it, since when and why."""
        return self._record.conditions

    @property
    def events(self) -> list[Event]:
        """What happened to it, oldest first; asked for once, and again after `refresh()`.

        ```python
        for event in trial.refresh().events:
            print(event.time, event.reason, event.message)
        ```
        """
        if self._events is None:
            path = path_of("trials", self.id, "events")
            self._events = self._transport.ask("GET", path, list[Event])
        return self._events

    @property
    def priority(self) -> int:
        """Who is let in first: the higher before the lower. `set_priority` changes it."""
        return self._record.spec.priority

    @property
    def resources(self) -> Resources:
        """What it asked for."""
        return self._record.spec.roles[0].resources

    @property
    def config(self) -> dict[str, Any]:
        """How it was set up: roles, arguments, resources, rules, code. Plain data, fit for JSON.

        The names are those of `wl.Job`, so that any of it can be used again. Of secrets there are
        the names: their values are never recorded.

        ```python
        trial = train.submit(0.1)
        main = trial.config["roles"]["main"]
        print(main["args"], main["executor"], trial.config["backoff_limit"])
        job = wl.Job(wl.Command(["true"]), executor=wl.Local(**main["executor"]))
        ```
        """
        from windlass.client.configuration import config_of

        return config_of(self._record)

    @property
    def code(self) -> Code:
        """The code snapshot it runs."""
        return self._record.spec.code

    @property
    def provenance(self) -> Provenance:
        """Who submitted it, from where, with which Python, packages and git commit."""
        return self._record.provenance

    @property
    def template(self) -> str:
        """The name of the template whose fields it was given; empty if there was none."""
        return self._record.recipe.template

    @property
    def directory(self) -> str:
        """Where its files are, on the server's machine."""
        return self._record.directory

    @property
    def record(self) -> TrialRecord:
        """Everything above, as one plain struct."""
        return self._record
