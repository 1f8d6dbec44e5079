"""Routes for the queue: list it, change its order, and list a trial's tasks."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from windlass.model.queue import MoveTrial, QueuePage, SetPriority, TaskPage
from windlass.model.records import TrialRecord
from windlass.model.requests import API
from windlass.server.operations.describe import describe
from windlass.server.services import Services
from windlass.server.web.query_types import Limit
from windlass.server.web.routing import Route

Cursor = Annotated[str, Meta(max_length=10_000)] | None


async def list_queue(services: Services, cursor: Cursor = None, limit: Limit = 100) -> QueuePage:
    """List the trials that wait for capacity, in pages and in order of admission."""
    from windlass.server.operations import queue_order

    return await queue_order.page_of_queue(services, cursor, limit)


async def set_priority(services: Services, trial_id: int, data: SetPriority) -> TrialRecord:
    """Set a trial's priority. A queued trial moves to its new position at once."""
    from windlass.server.operations import queue_order

    await queue_order.set_priority(services, trial_id, data.priority)
    return await describe(services, trial_id)


async def move_trial(services: Services, trial_id: int, data: MoveTrial) -> TrialRecord:
    """Move a queued trial directly ahead of another queued trial."""
    from windlass.server.operations import queue_order

    await queue_order.move_ahead_of(services, trial_id, data.ahead_of)
    return await describe(services, trial_id)


async def list_tasks(
    services: Services, trial_id: int, cursor: Cursor = None, limit: Limit = 100
) -> TaskPage:
    """List all attempts of a trial's replicas, including the resources of each attempt."""
    from windlass.server.operations import tasks

    return await tasks.page_of_tasks(services, trial_id, cursor, limit)


_TRIAL = f"{API}/trials/{{trial_id:int}}"
routes = [
    Route("GET", f"{API}/queue", list_queue),
    Route("POST", f"{_TRIAL}/priority", set_priority),
    Route("POST", f"{_TRIAL}/move", move_trial),
    Route("GET", f"{_TRIAL}/tasks", list_tasks),
]
