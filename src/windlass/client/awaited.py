"""Experiments that are waited for: `wait()`, `await`, and the blocks that build them."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from windlass.client.experiment_facts import ExperimentFacts
from windlass.client.waits import seconds_of
from windlass.model.errors import WindlassError

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from windlass.client.blocks import Block
    from windlass.client.progress import Progress


class AwaitedExperiment(ExperimentFacts):
    """An experiment whose end can be waited for."""

    def wait(self, timeout: float | str | None = None) -> Self:
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
        try:
            self._learn(waiting.run())
            return self
        except (WindlassError, KeyboardInterrupt) as error:
            failure = error.with_traceback(None)  # our frames tell users nothing
        raise failure

    def _learn(self, progress: Progress) -> None:
        """Take in how it stands; so do the trials that were added here, for whoever holds them."""
        self._record = progress.experiment
        for handed in tuple(self._handed):
            trial = handed()
            if trial is not None and trial.id in progress.trials and not trial.is_finished:
                trial._learn(progress.trials[trial.id])

    def __await__(self) -> Generator[Any, None, Self]:
        """`await experiment` waits as `wait()` does."""
        return self._wait_async().__await__()

    async def _wait_async(self) -> Self:
        from windlass.client.awaiting import in_thread
        from windlass.client.waiting import Waiting

        waiting = Waiting(self._transport, self._record)
        name = f"windlass-wait-experiment-{self.id}"
        self._learn(await in_thread(waiting.run, waiting.cut, name))
        return self

    def __enter__(self) -> Self:
        """Build it in a block: whatever fails to launch is raised at its end.

        ```python
        with wl.create_experiment("sweep", wait=True) as exp:
            for lr in (0.1, 0.01):
                exp.add(wl.Job(wl.Command(["echo"])), args={"lr": lr})
        ```

        The end of the block waits for generators, and with `wait=True` for the trials, too.
        `wl.LaunchFailed` tells which generators raised, `wl.ExperimentFailed` which trials that
        were waited for did not succeed. Ctrl-C waits for nothing; what was added goes on.
        """
        self._block().enter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._blocks.pop().leave(raised)
            return
        except (WindlassError, KeyboardInterrupt) as error:
            failure = error.with_traceback(None)  # our frames tell users nothing
        raise failure

    async def __aenter__(self) -> Self:
        """The same in asynchronous code: async generators run on the loop of the block.

        ```python
        async with wl.create_experiment("sweep") as exp:
            trials = [exp.add(job, args={"lr": lr}) for lr in (0.1, 0.01)]
            print(await asyncio.gather(*trials))
        ```
        """
        await self._block().enter_async()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._blocks.pop().leave_async(raised)
            return
        except WindlassError as error:
            failure = error.with_traceback(None)  # our frames tell users nothing
        raise failure

    def _block(self) -> Block:
        from windlass.client.blocks import Block

        self._blocks.append(Block(self, self._transport, waits=self._waits))
        return self._blocks[-1]
