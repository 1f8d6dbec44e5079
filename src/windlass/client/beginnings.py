"""What a trial that goes on from another begins with, and when it may."""

from __future__ import annotations

from windlass.client.checkpoints import Checkpoint, list_checkpoints
from windlass.client.transport import Transport
from windlass.model.errors import Conflict, InvalidArgument
from windlass.model.records import TrialRecord


def refuse_to_go_on_twice(record: TrialRecord) -> None:
    """Refuse to continue what has not ended."""
    if not record.state.is_final:
        raise Conflict(
            f"Trial {record.id} ({record.name}) is {record.state.value}: it goes on by itself.",
            hint="Go another way from one of its checkpoints: trial.fork(checkpoint, args),"
            " or windlass continue --fork",
        )


def uid_to_begin_with(
    transport: Transport, record: TrialRecord, checkpoint: Checkpoint | int | str | None
) -> str:
    """The checkpoint to begin with: one of the trial's own, or the one that it began with."""
    from windlass.authoring.repeating import refuse_unrepeatable
    from windlass.client.session import Client

    refuse_unrepeatable(record)
    named = f"Trial {record.id} ({record.name})"
    if checkpoint is None:
        newest = next(list_checkpoints(transport, record.id, "-number", 1), None)
        if newest is None and not record.recipe.checkpoint:
            raise InvalidArgument(
                f"{named} saved no checkpoint: there is nothing to go on from.",
                hint="Run it once more from the beginning: trial.rerun(),"
                f" or windlass rerun {record.id}",
            )
        return newest.uid if newest else record.recipe.checkpoint
    if not isinstance(checkpoint, Checkpoint):
        checkpoint = Client.over(transport).get_checkpoint(checkpoint)
    if checkpoint.trial_id != record.id and checkpoint.uid != record.recipe.checkpoint:
        raise InvalidArgument(
            f"Checkpoint {checkpoint.id} is of trial {checkpoint.trial_id}, not of {named}.",
            hint=f"Its own: windlass checkpoint ls {record.id}",
        )
    return checkpoint.uid
