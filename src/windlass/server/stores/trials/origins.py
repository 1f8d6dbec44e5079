"""Checks a new trial's origins: its parent, the trial that it repeats, and its checkpoint."""

from __future__ import annotations

from msgspec.structs import replace

from windlass.model.errors import Conflict, NotFound
from windlass.model.job import Begin, GeneratorCall
from windlass.model.requests import CreateTrial
from windlass.model.status import ConditionType
from windlass.server.db.base import Connection
from windlass.server.stores.checkpoints.rows import find_by_uid
from windlass.server.stores.trials.rows import find


def check_parent(connection: Connection, request: CreateTrial) -> None:
    """Raise an error if a new trial's parent does not exist or accepts no more children."""
    parent_id = request.parent_id or 0
    parent = find(connection, "id", parent_id)
    if parent is None:
        raise NotFound(f"There is no trial {parent_id} to add to.")
    record, status = parent.record, parent.status
    named = f"Trial {record.id} ({record.name})"
    if not isinstance(record.spec.roles[0].executable, GeneratorCall):
        raise Conflict(
            f"{named} has no generator, so nothing can be added to it.",
            hint="Add it to the experiment: exp.add(...)",
        )
    if request.experiment_id != record.experiment_id:
        raise Conflict(f"{named} belongs to experiment {record.experiment_id}.")
    if status.is_finished or status.stop_requested:
        raise Conflict(
            f"{named} is {record.state.value.lower()}, so nothing can be added to it.",
            hint=f"See: windlass show {record.id}",
        )
    if status.holds(ConditionType.CREATED):
        raise Conflict(
            f"The generator of trial {record.id} ({record.name}) has returned, so nothing "
            "can be added to it.",
            hint="Add it before the generator returns, or to the experiment: exp.add(...)",
        )


def with_checkpoint(connection: Connection, request: CreateTrial) -> CreateTrial:
    """Return the request after adding data about the checkpoint from which the job starts."""
    uid = request.recipe.checkpoint
    if not uid:
        return request if request.spec.begin is None else _beginning(request, None)
    checkpoint = find_by_uid(connection, uid)
    if checkpoint is None:
        raise NotFound(
            f"There is no checkpoint {uid[:80]} to start from.", hint="See: windlass checkpoint ls"
        )
    begin = Begin(
        uid=uid,
        name=checkpoint.name,
        manifest=checkpoint.manifest,
        is_folder=checkpoint.is_folder,
        step=checkpoint.step,
    )
    return _beginning(request, begin)


def check_origin(connection: Connection, origin_id: int) -> None:
    """Raise NotFound if the trial to repeat does not exist, so that chains of origins end."""
    if find(connection, "id", origin_id) is None:
        raise NotFound(f"There is no trial {origin_id} to repeat.")


def _beginning(request: CreateTrial, begin: Begin | None) -> CreateTrial:
    return replace(request, spec=replace(request.spec, begin=begin))
