"""Routes for checkpoints: list, get, annotate and delete."""

from __future__ import annotations

import asyncio
from typing import Annotated

from msgspec import Meta

from windlass.model.records import CheckpointRecord
from windlass.model.requests import API, ChangeCheckpoint, CheckpointPage
from windlass.server.services import Services
from windlass.server.web.query_types import Cursor, Limit, Text
from windlass.server.web.routing import Route

Key = Annotated[str, Meta(max_length=100)]  # an id or a uid


async def list_checkpoints(
    services: Services,
    trial_id: int | None = None,
    sort: Text = "id",
    cursor: Cursor | None = None,
    limit: Limit = 100,
) -> CheckpointPage:
    """List the checkpoints of one trial, or of all trials, in sorted pages.

    A single trial's checkpoints can be sorted by a metric.
    """
    if trial_id is not None:
        await services.trials.record(trial_id)
    return await services.checkpoints.page(trial_id=trial_id, sort=sort, cursor=cursor, limit=limit)


async def get_checkpoint(services: Services, checkpoint: Key) -> CheckpointRecord:
    """Return one checkpoint by its id or uid."""
    return await services.checkpoints.record(checkpoint)


async def change_checkpoint(
    services: Services, checkpoint: Key, data: ChangeCheckpoint
) -> CheckpointRecord:
    """Change the metadata of a checkpoint."""
    return await services.checkpoints.change(checkpoint, data)


async def delete_checkpoint(services: Services, checkpoint: Key) -> CheckpointRecord:
    """Delete a checkpoint and return its record. Refuse if a trial or model uses the checkpoint."""
    return await asyncio.to_thread(services.checkpoints.delete, checkpoint)


_CHECKPOINT = f"{API}/checkpoints/{{checkpoint}}"
routes = [
    Route("GET", f"{API}/checkpoints", list_checkpoints),
    Route("GET", _CHECKPOINT, get_checkpoint),
    Route("PATCH", _CHECKPOINT, change_checkpoint),
    Route("DELETE", _CHECKPOINT, delete_checkpoint),
]
