"""Experiments as users hold them: fully filled in, refreshed on demand."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

from windlass.client.metadata import Described
from windlass.client.transport import Transport, path_of
from windlass.client.trials import Trial, list_trials, seconds_of
from windlass.model.records import ExperimentRecord
from windlass.model.wire import StopTrial


class Experiment(Described):
    """A named set of trials.

    ```python
    for trial in wl.get_experiment("train").list_trials(state="SUCCEEDED"):
        print(trial.params)
    ```
    """

    def __init__(self, transport: Transport, record: ExperimentRecord) -> None:
        self._transport = transport
        self._record = record

    @property
    def id(self) -> int:
        """The number by which it can be asked for."""
        return self._record.id

    @property
    def name(self) -> str:
        """What it is called."""
        return self._record.name

    @property
    def project(self) -> str:
        """The project it belongs to."""
        return self._record.project

    @property
    def created(self) -> float:
        """When its first trial was submitted."""
        return self._record.created

    @property
    def trial_count(self) -> int:
        """How many trials it has."""
        return self._record.trials

    @property
    def states(self) -> dict[str, int]:
        """How many trials are in which state."""
        return self._record.states

    @property
    def state(self) -> str:
        """One of EMPTY, RUNNING, SUCCEEDED, FAILED, STOPPED; auxiliary trials do not count."""
        return self._record.state.value

    @property
    def record(self) -> ExperimentRecord:
        """Everything above, as one plain struct."""
        return self._record

    def refresh(self) -> Experiment:
        """Ask the server how it stands now."""
        self._now()
        return self

    def list_trials(
        self,
        *,
        state: str | list[str] | None = None,
        labels: str | Sequence[str] | None = None,
        sort_by: str = "id",
        limit: int | None = None,
    ) -> Iterator[Trial[Any]]:
        """Its trials, lazily, a page at a time; with `labels`, those that have all of them."""
        return list_trials(
            self._transport,
            experiment_id=self.id, state=state, labels=labels, sort_by=sort_by, limit=limit,
        )  # fmt: skip

    def wait(self, timeout: float | str | None = None) -> Experiment:
        """Wait until all its trials have ended, one way or another; a table shows how they stand.

        Auxiliary trials are not waited for. It raises for none that failed: see `state`, or
        `list_trials(state="FAILED")`. `WaitTimeout` if it takes longer than `timeout`. Ctrl-C
        leaves, and the trials go on.

        ```python
        experiment = wl.get_experiment("sweep").wait()
        print(experiment.state, experiment.states)
        ```
        """
        from windlass.client.waiting import Waiting

        waiting = Waiting(self._transport, self._record, seconds_of(timeout))
        self._record = waiting.run().experiment
        return self

    def __await__(self) -> Generator[Any, None, Experiment]:
        """`await experiment` waits as `wait()` does."""
        return self._wait_async().__await__()

    async def _wait_async(self) -> Experiment:
        from windlass.client.awaiting import in_thread
        from windlass.client.waiting import Waiting

        waiting = Waiting(self._transport, self._record)
        name = f"windlass-wait-experiment-{self.id}"
        self._record = (await in_thread(waiting.run, waiting.cut, name)).experiment
        return self

    def stop(self, *, grace: float | str = 10.0, reason: str = "") -> Experiment:
        """Ask all its trials that go on to stop, auxiliary ones too.

        ```python
        wl.get_experiment("sweep").stop(reason="a better idea").wait()
        ```
        """
        path = path_of("experiments", self.id, "stop")
        body = StopTrial(grace=seconds_of(grace) or 0.0, reason=reason)
        self._record = self._transport.ask("POST", path, ExperimentRecord, body=body)
        return self

    def __repr__(self) -> str:
        return f"<Experiment {self.id} {self.name}: {self.trial_count} trials>"
