"""`windlass scale`: a trial with more replicas, or fewer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.parameters import TRIAL_ID, complete_roles

if TYPE_CHECKING:
    from windlass.client.trials import Trial


@click.command(short_help="Give a trial more replicas, or fewer.")
@click.argument("trial_id", type=TRIAL_ID, metavar="ID")
@click.argument(
    "sizes", nargs=-1, required=True, metavar="[ROLE=]N...", shell_complete=complete_roles
)
@click.pass_context
def command(ctx: click.Context, trial_id: int, sizes: tuple[str, ...]) -> int:
    """Give a trial more replicas, or fewer, while it goes on.

    Of a trial with one role the number is enough. More replicas start when there is room
    for them; of fewer, those with the highest numbers are stopped.
    """
    from windlass.cli.steering import steer

    asked = _read_sizes(ctx, sizes)
    return steer([trial_id], lambda trial: _scale(trial, asked))


def _read_sizes(ctx: click.Context, sizes: Sequence[str]) -> dict[str, int]:
    """How many of which role; a number alone is of the role without a name."""
    asked: dict[str, int] = {}
    for text in sizes:
        role, _, number = text.rpartition("=")
        if not (number.isascii() and number.isdecimal()) or text.startswith("="):
            raise click.UsageError(f"{text!r} is neither a number nor ROLE=N.", ctx)
        if role in asked:
            which = f"the role {role!r}" if role else "the one role"
            raise click.UsageError(f"How many of {which}? It is given twice.", ctx)
        asked[role] = int(number)
    return asked


def _scale(trial: Trial[Any], asked: dict[str, int]) -> str:
    from windlass.cli.steering import called

    before = {role.name: role.replicas for role in trial.record.spec.roles}
    sizes = _named(trial, asked, list(before))
    trial.scale(**sizes)
    changed = {name: size for name, size in sizes.items() if before.get(name) != size}
    if not changed:
        held = ", ".join(f"{name} {size}" for name, size in sizes.items())
        return f"{called(trial)} had that size before: {held}."
    told = ", ".join(f"{name} {before[name]} -> {size}" for name, size in changed.items())
    return f"{called(trial)} is scaled: {told}."


def _named(trial: Trial[Any], asked: dict[str, int], roles: Sequence[str]) -> dict[str, int]:
    """The sizes with the names of their roles."""
    from windlass.cli.steering import called
    from windlass.model.errors import InvalidArgument

    if "" not in asked:
        return asked
    if len(roles) > 1 or len(asked) > 1:
        example = " ".join(f"{role}=N" for role in roles)
        raise InvalidArgument(
            f"{called(trial)} has the roles {', '.join(roles)}: say which is to have {asked['']}.",
            hint=f"windlass scale {trial.id} {example}",
        )
    return {roles[0]: asked[""]}
