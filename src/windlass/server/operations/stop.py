"""Stops trials. Except on a full disk, the stop is recorded before the processes are stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from windlass.model.job import GeneratorCall
from windlass.model.requests import AskToStop, StopTrial
from windlass.model.status import Phase, ReplicaId
from windlass.runtimes import paths
from windlass.server.db.errors import DatabaseUnavailable
from windlass.server.errors import HOW_TO_FREE_SPACE, NoSpace, is_disk_full
from windlass.server.services import Services
from windlass.worker.common.atomic_files import write_json

_TRY_AGAIN = 0.2
_log = logging.getLogger("windlass")


async def stop(services: Services, trial_id: int, order: StopTrial) -> None:
    """Stop a trial. A finished trial does not change."""
    record = await services.trials.record(trial_id)
    if isinstance(record.spec.roles[0].executable, GeneratorCall):
        from windlass.server.operations import generators

        await generators.stop(services, record, order)
        return
    try:
        await _record(services, trial_id, order)
    except DatabaseUnavailable as error:
        # On a full disk, stop the processes first, because they may be filling the disk.
        if not is_disk_full(error):
            raise
        if not await _tell_processes(services, trial_id, order):
            raise
        task = asyncio.create_task(_record_when_there_is_space(services, trial_id, order))
        services.tasks.add(task)
        task.add_done_callback(services.tasks.discard)
        raise NoSpace(
            f"Trial {trial_id} is being stopped, but this cannot be recorded: the disk is "
            f"full, and nothing can be written to {services.home.path}.",
            hint=HOW_TO_FREE_SPACE,
        ) from error


async def ask_to_stop(services: Services, trial_id: int, order: AskToStop) -> None:
    """Make `wl.should_stop()` return True in all of a trial's current and future attempts.

    For a generator trial, this applies to the unfinished trials that it has added so far.
    """

    def tell() -> None:
        tell_to_stop(services.home.path, trial_id, order.reason)

    if await services.trials.ask_to_stop(trial_id, order.reason, tell):
        services.hub.publish(trial_id)
    record = await services.trials.record(trial_id)
    if isinstance(record.spec.roles[0].executable, GeneratorCall):
        for child in await services.relations.children_going_on(trial_id):
            await ask_to_stop(services, child, order)


def tell_to_stop(home: Path, trial_id: int, reason: str) -> None:
    """Write the file that asks a trial's program to end by itself."""
    folder = paths.trial_dir(home, trial_id)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_json(str(folder / paths.SHOULD_STOP), {"reason": reason})
    except OSError as error:
        _log.warning("the stop request for trial %d cannot be written: %s", trial_id, error)


async def stop_all(services: Services, trial_ids: Iterable[int], order: StopTrial) -> None:
    """Stop several trials at the same time.

    If they stopped one after the other, a waiting trial among them could start in the capacity that
    a stopped trial released.
    """
    stopping = (stop(services, trial_id, order) for trial_id in trial_ids)
    for done in await asyncio.gather(*stopping, return_exceptions=True):
        if isinstance(done, BaseException):
            raise done  # all other trials have been stopped by now


async def _record(services: Services, trial_id: int, order: StopTrial) -> None:
    uid = await services.trials.request_stop(trial_id, order)
    if uid is not None:
        try:
            if order.force:
                await asyncio.to_thread(services.runtime.give_up, uid)
        finally:
            services.controller.wake(uid)
            services.hub.publish(trial_id)


async def _tell_processes(services: Services, trial_id: int, order: StopTrial) -> bool:
    """Stop a trial's unfinished attempts through the runtime.

    Return whether there were any such attempts.
    """
    record = await services.trials.record(trial_id)
    living = [
        ReplicaId(attempt.role, attempt.index, attempt.attempt)
        for attempt in record.attempts
        if not Phase(attempt.phase).is_final
    ]
    for replica in living:
        stop = partial(services.runtime.delete, record.job, replica, order.grace)
        await asyncio.to_thread(stop, interrupt=order.interrupt)
    return bool(living)


async def _record_when_there_is_space(services: Services, trial_id: int, order: StopTrial) -> None:
    while not services.hub.is_closing:
        # Poll, because the system sends no notification when disk space becomes free.
        await asyncio.sleep(_TRY_AGAIN)
        try:
            await _record(services, trial_id, order)
        except DatabaseUnavailable:
            continue
        return
