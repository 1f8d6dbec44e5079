"""Builds requests that change a trial's replicas, priority or queue position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from windlass.model.errors import InvalidArgument, shown
from windlass.model.requests import ScaleTrial

if TYPE_CHECKING:
    from windlass.model.queue import MoveTrial, SetPriority
    from windlass.model.records import TrialRecord

_MAX_PRIORITY = 1_000_000


def scale_request(
    record: TrialRecord, replicas: Mapping[str, int] | int | None, by_role: Mapping[str, int]
) -> ScaleTrial:
    """Check each role's new number of replicas and build the request.

    For a trial with only one role, a plain number suffices.
    """
    if replicas is not None and not isinstance(replicas, Mapping):
        replicas = {_only_role(record, replicas, by_role): replicas}
    sizes: dict[str, Any] = {**(replicas or {}), **by_role}
    problems = [
        f"{role}={shown(size)}: write a whole number from 0 to 10000"
        for role, size in sizes.items()
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= 10_000
    ]
    problems += [f"{shown(role)} is not a valid role name" for role in sizes if not _is_name(role)]
    if not sizes:
        problems.append("scale() needs a role and its number of replicas: scale(worker=4)")
    if problems:
        raise InvalidArgument.of(problems)
    return ScaleTrial(replicas=sizes)


def priority_request(priority: Any) -> SetPriority:
    """Check a new priority and build the request."""
    from windlass.model.queue import SetPriority

    is_whole = isinstance(priority, int) and not isinstance(priority, bool)
    if not is_whole or abs(priority) > _MAX_PRIORITY:
        raise InvalidArgument(
            f"priority: {shown(priority)} is not a whole number"
            f" from -{_MAX_PRIORITY} to {_MAX_PRIORITY}."
        )
    return SetPriority(priority=priority)


def move_request(other: Any) -> MoveTrial:
    """Build the request that moves a trial ahead of `other`, a trial or its id."""
    from windlass.model.queue import MoveTrial

    number = other if isinstance(other, int) else getattr(other, "id", None)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number < 2**63:
        raise InvalidArgument(
            f"{shown(other)} is neither a trial nor a trial id.",
            hint="See pending trials: windlass queue",
        )
    return MoveTrial(ahead_of=number)


def _only_role(record: TrialRecord, size: object, by_role: Mapping[str, int]) -> str:
    roles = [role.name for role in record.spec.roles]
    if len(roles) == 1 and not by_role:
        return roles[0]
    raise InvalidArgument(
        f"Trial {record.id} ({record.name}) has the roles {', '.join(roles)}: "
        f"name the role for {shown(size)}.",
        hint='For example: scale({"' + '": 2, "'.join(roles) + '": 2})',
    )


def _is_name(role: Any) -> bool:
    is_plain = isinstance(role, str) and role.isascii() and role.islower()
    return is_plain and role.replace("-", "").isalnum()
