"""Chooses the checkpoint from which a new trial continues an earlier trial."""

from __future__ import annotations

from typing import Any

from windlass.client.connection.transport import Transport
from windlass.client.resources.checkpoint import Checkpoint, get_checkpoint, list_checkpoints
from windlass.model.errors import Conflict, InvalidArgument, shown
from windlass.model.records import TrialRecord


def refuse_checkpoint(method: str, args: Any) -> None:
    """Raise an error if a checkpoint was passed in place of the arguments."""
    if isinstance(args, (Checkpoint, int, str)):
        raise InvalidArgument(
            f"trial.{method}: {shown(args)} is in the place of the arguments.",
            hint=f'Pass a checkpoint by name: trial.{method}({{"lr": 0.1}}, checkpoint=...)',
        )


def check_is_finished(record: TrialRecord) -> None:
    """Raise an error if a trial has not ended. Only finished trials can be continued."""
    if not record.state.is_final:
        raise Conflict(
            f"Trial {record.id} ({record.name}) is {record.state.value}, so there is "
            "nothing to continue.",
            hint="To start another trial from one of its checkpoints: "
            "trial.fork(args, checkpoint=...), or windlass continue --fork",
        )


def checkpoint_uid(
    transport: Transport, record: TrialRecord, checkpoint: Checkpoint | int | str | None
) -> str:
    """Return the uid of the checkpoint to start from.

    It must be a checkpoint that the trial saved, or the one that the trial itself started from. The
    default is the newest saved checkpoint.
    """
    from windlass.authoring.rerun.rerun import refuse_unrepeatable

    refuse_unrepeatable(record)
    named = f"Trial {record.id} ({record.name})"
    if checkpoint is None:
        newest = next(list_checkpoints(transport, record.id, "-number", 1), None)
        if newest is None and not record.recipe.checkpoint:
            raise InvalidArgument(
                f"{named} saved no checkpoint to continue from.",
                hint=f"Run it again from the start: trial.rerun(), or windlass rerun {record.id}",
            )
        return newest.uid if newest else record.recipe.checkpoint
    if not isinstance(checkpoint, Checkpoint):
        checkpoint = get_checkpoint(transport, checkpoint)
    if checkpoint.trial_id != record.id and checkpoint.uid != record.recipe.checkpoint:
        raise InvalidArgument(
            f"Checkpoint {checkpoint.id} is of trial {checkpoint.trial_id}, not of {named}.",
            hint=f"See its checkpoints: windlass checkpoint ls {record.id}",
        )
    return checkpoint.uid
