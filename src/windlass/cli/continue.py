"""`windlass continue`: go on from what a trial saved, as a new trial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from windlass.cli.parameters import complete_checkpoints
from windlass.cli.rerun import RerunCommand, repeat, repeating
from windlass.cli.sections import options_of

if TYPE_CHECKING:
    from windlass.client.trials import Trial

_EXAMPLES = """Examples:

\b
  windlass continue 7
  windlass continue 7 --arg epochs=100
  windlass continue 7 --checkpoint 12 --fork --arg lr=0.01
"""

_from = options_of("Where it begins")


@click.command(
    cls=RerunCommand,
    short_help="Go on from a checkpoint of a trial, as a new one.",
    epilog=_EXAMPLES,
)
@_from(
    "--checkpoint", metavar="ID", shell_complete=complete_checkpoints,
    help="The checkpoint it begins with (the newest).",
)  # fmt: skip
@_from("--fork", is_flag=True, help="Go another way from there, though the trial may go on.")
@repeating
@click.pass_context
def command(ctx: click.Context, /, checkpoint: str | None, fork: bool, **given: Any) -> int:
    """Go on from a checkpoint of a trial, with its very code, as a new trial.

    The program finds the checkpoint where it looks for its own, in wl.latest_checkpoint() and
    WINDLASS_CHECKPOINT, until it has saved one. What can be other is as with windlass rerun.
    """

    def begin(trial: Trial[Any]) -> dict[str, Any]:
        from windlass.client.beginnings import refuse_to_go_on_twice, uid_to_begin_with
        from windlass.client.session import default_client

        if not fork:
            refuse_to_go_on_twice(trial.record)
        chosen = int(checkpoint) if checkpoint and checkpoint.isdecimal() else checkpoint
        uid = uid_to_begin_with(default_client().transport, trial.record, chosen)
        return {"checkpoint": uid, "is_fork": fork}

    return repeat(ctx, given, begin)
