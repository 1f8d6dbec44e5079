"""Experiments as users hold them: fully filled in, refreshed on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from windlass.client.transport import Transport, path_of
from windlass.client.trials import Trial, list_trials
from windlass.model.errors import WindlassError
from windlass.model.records import ExperimentRecord

if TYPE_CHECKING:
    from windlass.authoring.executables import Executable
    from windlass.authoring.function import Function
    from windlass.authoring.jobs import Job, JobGroup
    from windlass.authoring.packaged import Packaged


class Experiment:
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
    def record(self) -> ExperimentRecord:
        """Everything above, as one plain struct."""
        return self._record

    def refresh(self) -> Experiment:
        """Ask the server how it stands now."""
        path = path_of("experiments", self.id)
        self._record = self._transport.ask("GET", path, ExperimentRecord)
        return self

    def package(self, executables: Sequence[Executable | Packaged]) -> list[Packaged]:
        """Snapshot the code of executables now and upload it: what jobs of them will run.

        ```python
        exp = wl.create_experiment("greetings")
        [echo] = exp.package([wl.Command(["echo", "hello"])])
        exp.add(wl.Job(echo), args=["world"])
        ```

        They are returned in their order. What is edited afterwards is not in them.
        """
        from windlass.client.session import Client

        return Client.over(self._transport).package(executables)

    def add(
        self,
        what: Job | JobGroup | Function[..., Any],
        args: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        env: Mapping[str, Any] | None = None,
        name: str | None = None,
        labels: Sequence[str] = (),
        identity: str | None = None,
        auxiliary: bool = False,
    ) -> Trial[Any]:
        """Start a trial of a job now, with arguments of its own; it is returned at once.

        ```python
        exp = wl.create_experiment("sweep")
        [echo] = exp.package([wl.Command(["echo"])])
        job = wl.Job(echo, args={"epochs": 3}, executor=wl.Local(cpus=0.5))
        for lr in (0.1, 0.01):
            exp.add(job, args={"lr": lr}, identity=f"lr={lr}")
        ```

        Args:
            what: a `wl.Job`, a `wl.JobGroup`, or a function decorated with `wl.run`.
            args: laid over the job's own: a mapping changes them by name, nested ones too; a
                list takes the place of a list; what is of the other kind comes behind. For a
                group by role: `{"learner": {"lr": 0.1}}`.
            env: variables, laid over the job's own; for a group by role.
            name: what the trial is called (as the job says).
            labels: texts to find it by.
            identity: a text that is unique in the experiment: added again, from wherever, the
                trial that exists is returned.
            auxiliary: whether it ends with the experiment and is no part of its success.
        """
        from windlass.authoring.adding import Wish, add
        from windlass.client.session import Client

        try:
            wish = Wish(args, env, name, labels, identity, auxiliary)
            return add(self, Client.over(self._transport), what, wish)
        except WindlassError as error:
            failure = error.with_traceback(None)  # our frames tell users nothing
        raise failure

    def list_trials(
        self,
        *,
        state: str | list[str] | None = None,
        sort_by: str = "id",
        limit: int | None = None,
    ) -> Iterator[Trial[Any]]:
        """Its trials, lazily, a page at a time."""
        return list_trials(
            self._transport,
            experiment_id=self.id, state=state, sort_by=sort_by, limit=limit,
        )  # fmt: skip

    def __reduce__(self) -> tuple[Any, ...]:
        """It can be sent along: it arrives as it was, asking the server there."""
        return _revive, (self._record,)

    def __repr__(self) -> str:
        return f"<Experiment {self.id} {self.name}: {self.trial_count} trials>"


def _revive(record: ExperimentRecord) -> Experiment:
    from windlass.client.session import default_client

    return Experiment(default_client().transport, record)
