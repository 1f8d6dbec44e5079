"""`with experiment:` and `async with experiment:`: the actions at the end of the block."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TypeGuard

from windlass.client.resources.experiment.builder import Building, hold, launch_failed
from windlass.model.errors import WindlassError

if TYPE_CHECKING:
    import asyncio

    from windlass.client.connection.transport import Transport
    from windlass.client.resources.experiment.experiment import Experiment
    from windlass.client.terminal.watch_experiment import Waiting


class Block:
    """One block of an experiment.

    Left, it waits for the generators that run, then for the trials if that was asked for, and
    raises what failed. What the block itself raised goes before all else; what interrupts it
    (Ctrl-C, a cancelled task) waits for nothing.
    """

    def __init__(self, experiment: Experiment, transport: Transport, *, waits: bool) -> None:
        self._experiment = experiment
        self._transport = transport
        self._waits = waits
        self._building: Building
        self._pid = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None

    def enter(self) -> None:
        """Hold the experiment."""
        self._building = hold(self._transport, self._experiment.record)
        self._building.enter()

    def leave(self, raised: BaseException | None) -> None:
        """Wait, let go, and raise what failed."""
        if self._pid != os.getpid():
            return  # after a fork it is left by the other process
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
        except BaseException as error:  # Ctrl-C, too, lets go of the experiment
            self._interrupt(error)
            self._building.leave()
            raise
        self._building.leave()
        self._conclude(raised, waiting)

    async def enter_async(self) -> None:
        """Hold the experiment; async generators run on this loop."""
        import asyncio

        self._loop = asyncio.get_running_loop()
        self._building = hold(self._transport, self._experiment.record)
        self._building.enter(self._loop)

    async def leave_async(self, raised: BaseException | None) -> None:
        """The same as `leave`, the loop free meanwhile."""
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
        except BaseException as error:  # a cancelled task, too, lets go of it
            self._interrupt(error)
            self._building.leave(self._loop)
            raise
        self._building.leave(self._loop)
        self._conclude(raised, waiting)

    def _waiting(self, raised: BaseException | None) -> Waiting | None:
        if not self._waits or raised is not None:
            return None
        from windlass.client.terminal.watch_experiment import Waiting

        return Waiting(self._transport, self._experiment.record)

    def _tell_of_generators(self, raised: BaseException | None) -> None:
        """An error that cannot be seen yet is told, with what it waits for."""
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
                f"Left experiment {number} ({self._experiment.name}) in the midst of building "
                f"trial {which}; what was added goes on.\n"
                f"To stop it: windlass stop --experiment {number}\n"
            )
            sys.stderr.flush()

    def _conclude(self, raised: BaseException | None, waiting: Waiting | None) -> None:
        failures = self._building.take_failures()
        if waiting is not None:
            self._experiment._take_over(waiting.progress)
        try:
            self._experiment.refresh()
        except WindlassError:
            pass  # how it stands can be asked again
        if raised is not None:
            return
        if failures:
            raise launch_failed(self._experiment.record, failures)
        if waiting is not None:
            from windlass.client.terminal.watch_experiment import failure_of

            if failure := failure_of(waiting.progress, self._transport):
                raise failure


def _interrupts(raised: BaseException | None) -> TypeGuard[BaseException]:
    """Whether a block is left at once: Ctrl-C, a task that was cancelled."""
    return raised is not None and not isinstance(raised, (Exception, SystemExit))
