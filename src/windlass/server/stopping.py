"""Stopping a trial: recorded, then done; on a full disk done all the same, and recorded later."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterable

from windlass.model.job import GeneratorCall
from windlass.model.status import Phase, ReplicaId
from windlass.model.wire import StopTrial
from windlass.server.faults import HOW_TO_MAKE_ROOM, NoSpace, is_no_space
from windlass.server.services import Services

_TRY_AGAIN = 0.2


async def stop(services: Services, trial_id: int, order: StopTrial) -> None:
    """Have a trial end; nothing if it has."""
    record = await services.trials.record(trial_id)
    if isinstance(record.spec.roles[0].executable, GeneratorCall):
        from windlass.server import generators

        await generators.stop(services, record, order)
        return
    try:
        await _record(services, trial_id, order)
    except sqlite3.OperationalError as error:
        # It may be the very one that fills the disk.
        if not is_no_space(error, services.home.path):
            raise
        if not await _tell_processes(services, trial_id, order.grace):
            raise
        task = asyncio.create_task(_record_when_there_is_space(services, trial_id, order))
        services.tasks.add(task)
        task.add_done_callback(services.tasks.discard)
        raise NoSpace(
            f"Trial {trial_id} is told to end. That cannot be recorded: the disk is full, "
            f"nothing can be written to {services.home.path}.",
            hint=HOW_TO_MAKE_ROOM,
        ) from error


async def stop_all(services: Services, trial_ids: Iterable[int], order: StopTrial) -> None:
    """Have several trials end, all of them at once: none starts in the room of another."""
    await asyncio.gather(*(stop(services, trial_id, order) for trial_id in trial_ids))


async def _record(services: Services, trial_id: int, order: StopTrial) -> None:
    uid = await services.trials.request_stop(trial_id, order.reason, order.grace)
    if uid is not None:
        services.controller.wake(uid)
        services.hub.publish(trial_id)


async def _tell_processes(services: Services, trial_id: int, grace: float) -> bool:
    """Tell what runs of a trial to end, past all records; whether anything did."""
    record = await services.trials.record(trial_id)
    living = [
        ReplicaId(attempt.role, attempt.index, attempt.attempt)
        for attempt in record.attempts
        if not Phase(attempt.phase).is_final
    ]
    for replica in living:
        await asyncio.to_thread(services.runtime.delete, record.uid, replica, grace)
    return bool(living)


async def _record_when_there_is_space(services: Services, trial_id: int, order: StopTrial) -> None:
    while not services.hub.is_closing:
        await asyncio.sleep(_TRY_AGAIN)  # nothing tells of space on a disk
        try:
            await _record(services, trial_id, order)
        except sqlite3.OperationalError:
            continue
        return
