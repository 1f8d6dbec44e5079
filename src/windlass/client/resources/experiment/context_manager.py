"""Implements the blocks `with experiment:` and `async with experiment:`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TypeGuard

from windlass.client.resources.experiment.builder import ExperimentBuilder, hold, launch_failed
from windlass.model.errors import WindlassError

if TYPE_CHECKING:
    import asyncio

    from windlass.client.connection.transport import Transport
    from windlass.client.resources.experiment.experiment import Experiment
    from windlass.client.terminal.watch_experiment import ExperimentWait


class Block:
    """One use of an experiment in a `with` block.

    At its end, the block waits for running generators, and for all trials if the user requested it.
    Then it raises their failures, unless the block's own code raised an exception. After Ctrl-C or
    the cancellation of its task, the block ends without waiting.
    """

    def __init__(self, experiment: Experiment, transport: Transport, *, waits: bool) -> None:
        self._experiment = experiment
        self._transport = transport
        self._waits = waits
        self._building: ExperimentBuilder
        self._pid = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None

    def enter(self) -> None:
        """Take the lease that keeps the experiment open on the server."""
        self._building = hold(self._transport, self._experiment.record)
        self._building.enter()

    def leave(self, raised: BaseException | None) -> None:
        """Wait for generators and trials, release the lease, then raise any failures."""
        if self._pid != os.getpid():
            return  # after a fork, only the parent process leaves the block
        if _interrupts(raised):
            self._interrupt(raised)
            self._building.leave()
            return
        waiting = self._waiting(raised)
        try:
            if waiting is not None:
                waiting.run()
            self._tell_of_generators(raised)
            self._building.join()
        except BaseException as error:  # Ctrl-C must release the lease, too
            self._interrupt(error)
            self._building.leave()
            raise
        self._building.leave()
        self._conclude(raised, waiting)

    async def enter_async(self) -> None:
        """Take the lease that keeps the experiment open on the server.

        Async generators started in the block run on the current event loop.
        """
        import asyncio

        self._loop = asyncio.get_running_loop()
        self._building = hold(self._transport, self._experiment.record)
        self._building.enter(self._loop)

    async def leave_async(self, raised: BaseException | None) -> None:
        """Do the same as `leave` without blocking the event loop."""
        from windlass.client.connection.async_wait import in_thread

        if self._pid != os.getpid():
            return
        if _interrupts(raised):
            self._interrupt(raised)
            self._building.leave(self._loop)
            return
        name = f"windlass-block-{self._experiment.id}"
        waiting = self._waiting(raised)
        try:
            if waiting is not None:
                await in_thread(waiting.run, waiting.cut, name)
            self._tell_of_generators(raised)
            await in_thread(self._building.join, lambda: None, name)
        except BaseException as error:  # cancellation must release the lease, too
            self._interrupt(error)
            self._building.leave(self._loop)
            raise
        self._building.leave(self._loop)
        self._conclude(raised, waiting)

    def _waiting(self, raised: BaseException | None) -> ExperimentWait | None:
        if not self._waits or raised is not None:
            return None
        from windlass.client.terminal.watch_experiment import ExperimentWait

        return ExperimentWait(self._transport, self._experiment.record)

    def _tell_of_generators(self, raised: BaseException | None) -> None:
        """Print the `with` block's exception if generators are still running.

        The exception itself is raised only after all generators have ended.
        """
        running = self._building.running
        if raised is not None and running and sys.stderr is not None:
            number = "a generator" if len(running) == 1 else f"{len(running)} generators"
            kind = type(raised).__name__
            sys.stderr.write(f"{kind} was raised; waiting for {number}. Ctrl-C leaves at once.\n")
            sys.stderr.flush()

    def _interrupt(self, why: BaseException) -> None:
        given_up = self._building.abandon(why)
        self._building.take_failures()
        if given_up and sys.stderr is not None:
            number = self._experiment.id
            which = ", ".join(map(str, given_up))
            sys.stderr.write(
                f"Left experiment {number} ({self._experiment.name}) while building trial "
                f"{which}; trials that were already added continue.\n"
                f"To stop it: windlass stop --experiment {number}\n"
            )
            sys.stderr.flush()

    def _conclude(self, raised: BaseException | None, waiting: ExperimentWait | None) -> None:
        failures = self._building.take_failures()
        if waiting is not None:
            self._experiment._take_over(waiting.progress)
        try:
            self._experiment.refresh()
        except WindlassError:
            pass  # a later `refresh` can fetch the record
        if raised is not None:
            return
        if failures:
            raise launch_failed(self._experiment.record, failures)
        if waiting is not None:
            from windlass.client.terminal.watch_experiment import experiment_error

            if failure := experiment_error(waiting.progress, self._transport):
                raise failure


def _interrupts(raised: BaseException | None) -> TypeGuard[BaseException]:
    """Return whether an exception stems from Ctrl-C or from the task's cancellation."""
    return raised is not None and not isinstance(raised, (Exception, SystemExit))
