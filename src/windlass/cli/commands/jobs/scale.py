"""Implements `windlass scale`, which changes a trial's number of replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.options.parameters import TRIAL_ID, complete_roles

if TYPE_CHECKING:
    from windlass.client.resources.trial.trial import Trial


@click.command(
    short_help="Change the number of replicas of a trial.",
    epilog=examples(
        "windlass scale 7 4",
        "windlass scale 7 worker=4",
    ),
)
@click.argument("trial_id", type=TRIAL_ID, metavar="ID")
@click.argument(
    "sizes", nargs=-1, required=True, metavar="[ROLE=]N...", shell_complete=complete_roles
)
@click.pass_context
def command(ctx: click.Context, trial_id: int, sizes: tuple[str, ...]) -> int:
    """Change a trial's number of replicas while it runs.

    For a trial with one role, pass just the number. New replicas start as capacity becomes free.
    Surplus replicas are stopped from the highest index down.
    """
    from windlass.cli.options.for_each_trial import change_trials

    targets = _read_sizes(ctx, sizes)
    return change_trials([trial_id], lambda trial: _scale(trial, targets))


def _read_sizes(ctx: click.Context, sizes: Sequence[str]) -> dict[str, int]:
    """Parse texts of the form ROLE=N. The role of a plain number is ""."""
    targets: dict[str, int] = {}
    for text in sizes:
        role, _, number = text.rpartition("=")
        if not (number.isascii() and number.isdecimal()) or text.startswith("="):
            raise click.UsageError(f"{text!r} is neither a number nor ROLE=N.", ctx)
        if role in targets:
            which = f"the role {role!r}" if role else "the only role"
            raise click.UsageError(f"The number of replicas of {which} is set twice.", ctx)
        targets[role] = int(number)
    return targets


def _scale(trial: Trial[Any], targets: dict[str, int]) -> str:
    from windlass.cli.options.for_each_trial import trial_label

    before = {role.name: role.replicas for role in trial.record.spec.roles}
    sizes = _named(trial, targets, list(before))
    trial.scale(**sizes)
    changed = {name: size for name, size in sizes.items() if before.get(name) != size}
    if not changed:
        held = ", ".join(f"{name} {size}" for name, size in sizes.items())
        return f"{trial_label(trial)} already has this size: {held}."
    changes = ", ".join(f"{name} {before[name]} -> {size}" for name, size in changed.items())
    return f"{trial_label(trial)} is scaled: {changes}."


def _named(trial: Trial[Any], targets: dict[str, int], roles: Sequence[str]) -> dict[str, int]:
    """In the requested sizes, replace the role "" with the trial's only role."""
    from windlass.cli.options.for_each_trial import trial_label
    from windlass.model.errors import InvalidArgument

    if "" not in targets:
        return targets
    if len(roles) > 1 or len(targets) > 1:
        size, example = targets[""], " ".join(f"{role}=N" for role in roles)
        raise InvalidArgument(
            f"{trial_label(trial)} has the roles {', '.join(roles)}. Name the role for {size}.",
            hint=f"windlass scale {trial.id} {example}",
        )
    return {roles[0]: targets[""]}
