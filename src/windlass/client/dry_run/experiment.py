"""Dry runs of experiments, which print the trials that would be added."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import msgspec

from windlass.client.connection.pages import Listing, in_memory_listing
from windlass.client.dry_run.client import DryClient, DryTrial, NothingRan, nothing_ran
from windlass.client.resources.experiment.experiment import Experiment
from windlass.client.resources.trial.trial import Trial
from windlass.model.errors import Unsupported
from windlass.model.records import ExperimentRecord
from windlass.model.requests import CreateExperiment
from windlass.packaging.draft import Draft

if TYPE_CHECKING:
    from typing_extensions import Self

    from windlass.authoring.prepare.add_to_experiment import AddOptions

R = TypeVar("R")


class DryExperiment(Experiment):
    """An experiment of a dry run, which prints added trials instead of starting them.

    ```python
    exp = wl.create_experiment("sweep", dry_run=True)
    for lr in (0.1, 0.01):
        exp.add(wl.Job(wl.Command(["echo"])), args={"lr": lr})
    exp.wait()  # there is nothing to wait for
    ```
    """

    def __init__(self, client: DryClient, request: CreateExperiment) -> None:
        self._dry_client = client
        record = ExperimentRecord(
            id=0,
            uid=request.key,
            name=request.name,
            project=request.project,
            created=time.time(),
            labels=request.labels,
            description=request.description,
            config=request.config,
        )
        super().__init__(client.transport, record)

    def _add(self, what: Any, wish: AddOptions) -> Trial[Any]:
        """Print an added trial.

        A generator runs right away in this process, and the dry run prints the jobs that it adds.
        """
        from windlass.authoring.prepare.add_to_experiment import add_job, is_generator

        if is_generator(what):
            return self._build(what, wish)
        return add_job(self._dry_client, self._record, what, wish)

    def _add_many(self, what: Any, options: Sequence[AddOptions]) -> list[Trial[Any]]:
        """Print the added trials."""
        return [self._add(what, wish) for wish in options]

    def _build(self, generator: Callable[..., Any], wish: AddOptions) -> Trial[Any]:
        from windlass.authoring.prepare.generators import build_request, check_generator

        arguments, params = check_generator(generator, wish)
        request = build_request(self._record, generator, params, wish, "")
        trials = self._dry_client.trials
        if request.key not in trials:
            trial: DryBuild[Any] = DryBuild(self, Draft(request))
            trials[request.key] = trial
            trial.build(generator, arguments)
        return trials[request.key]

    @property
    def trial_count(self) -> int:
        """The number of trials added so far."""
        return len(self._dry_client.trials)

    @property
    def states(self) -> dict[str, int]:
        """The number of trials added so far, all in the state DRY."""
        return {"DRY": self.trial_count} if self.trial_count else {}

    def list_trials(
        self, *, sort_by: str = "id", limit: int | None = None, **filters: Any
    ) -> Listing[Trial[Any]]:
        """List the added trials. Filters and sort orders are not supported."""
        if sort_by != "id" or any(value is not None for value in filters.values()):
            raise nothing_ran()
        return in_memory_listing(list(self._dry_client.trials.values())[:limit])

    def wait(self, timeout: float | str | None = None) -> Self:  # noqa: ARG002 -- overrides `wait`
        """Return this object at once, because there is nothing to wait for."""
        return self

    async def _wait_async(self) -> Self:
        return self

    def __enter__(self) -> Self:
        """Return this object. A dry run takes no lease on an experiment."""
        return self

    def __exit__(self, *_raised: object) -> None:
        """Do nothing, because there is nothing to wait for."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_raised: object) -> None:
        pass

    def table(self, *_args: Any, **_named: Any) -> NoReturn:
        """Raise `wl.Unsupported`, because a dry run has no results."""
        raise nothing_ran()

    def search(self, *_args: Any, **_settings: Any) -> NoReturn:
        """Raise `wl.Unsupported`, because a search depends on results."""
        raise Unsupported(
            "A search has no dry run, because each trial depends on the results of earlier trials.",
            hint="Check one of its trials: exp.add(job, args={...})",
        )

    @property
    def _client(self) -> DryClient:
        return self._dry_client

    def refresh(self) -> Self:
        """Return this object unchanged, because the server has no record of it."""
        return self

    def _change(self, **changes: Any) -> Self:
        """Change the record in memory. The caller has already checked the changes."""
        plain = {name: value for name, value in changes.items() if hasattr(self._record, name)}
        self._record = msgspec.structs.replace(self._record, **plain)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle this object as an ordinary `Experiment`, with only its record."""
        return Experiment(self._transport, self._record).__reduce__()

    def __repr__(self) -> str:
        return f"<DryExperiment {self.name}: {self.trial_count} trials, nothing ran>"


class DryBuild(DryTrial[R]):
    """A generator's trial in a dry run.

    A generator is a user function that adds trials, which the dry run prints.
    """

    def __init__(self, experiment: DryExperiment, draft: Draft) -> None:
        super().__init__(experiment._client.transport, draft)
        self._experiment = experiment

    def _add(self, what: Any, wish: AddOptions) -> Trial[Any]:
        return self._experiment._add(what, wish)

    def build(self, generator: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
        """Run the generator until it ends or asks for a job's result."""
        import inspect

        self._say(f"Dry run of {self.name}, which adds")
        try:
            built = generator(self, **arguments)
            if inspect.isawaitable(built):
                _wait_for(built)
        except NothingRan:
            self._say(f"The dry run of {self.name} ends here: its next jobs depend on results.")

    def _say(self, text: str) -> None:
        if sys.stdout is not None:
            print(text, flush=True)  # noqa: T201 -- the output of a dry run


def _wait_for(built: Any) -> None:
    """Run a coroutine to completion, even if this thread already runs an event loop."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    async def run() -> None:
        await built

    with ThreadPoolExecutor(1) as threads:
        threads.submit(asyncio.run, run()).result()
