"""Implements `windlass continue`, which starts a new trial from a trial's checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from windlass.cli.commands.everyday.rerun import RerunCommand, rerun_options, run_again
from windlass.cli.options.help_sections import examples, section_options
from windlass.cli.options.parameters import complete_checkpoints

if TYPE_CHECKING:
    from windlass.client.resources.trial.trial import Trial

_EXAMPLES = examples(
    "windlass continue 7",
    "windlass continue 7 --arg epochs=100",
    "windlass continue 7 --checkpoint 12 --fork --arg lr=0.01",
)

_from = section_options("Start")


@click.command(
    cls=RerunCommand,
    short_help="Start a new trial from a checkpoint.",
    epilog=_EXAMPLES,
)
@_from(
    "--checkpoint", metavar="ID", shell_complete=complete_checkpoints,
    help="Checkpoint to start from (the newest).",
)  # fmt: skip
@_from("--fork", is_flag=True, help="Start a variant. The old trial may still be running.")
@rerun_options
@click.pass_context
def command(ctx: click.Context, /, checkpoint: str | None, fork: bool, **options: Any) -> int:
    """Start a new trial from a trial's checkpoint, with the recorded code.

    The program gets the checkpoint from wl.latest_checkpoint() or WINDLASS_CHECKPOINT. To change
    the new trial, use the same options as for windlass rerun.
    """

    def begin(trial: Trial[Any]) -> dict[str, Any]:
        from windlass.client.client import default_client
        from windlass.client.resources.trial.continue_from import (
            check_is_finished,
            checkpoint_uid,
        )

        if not fork:
            check_is_finished(trial.record)
        chosen = int(checkpoint) if checkpoint and checkpoint.isdecimal() else checkpoint
        uid = checkpoint_uid(default_client().transport, trial.record, chosen)
        return {"checkpoint": uid, "is_fork": fork}

    return run_again(ctx, options, begin)
