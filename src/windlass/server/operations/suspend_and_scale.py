"""Changes an unfinished trial: suspends, resumes or scales it."""

from __future__ import annotations

import asyncio
import difflib
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from windlass.engine.fits_machine import check_fits
from windlass.frameworks import find_framework_problems
from windlass.model.errors import Conflict, InvalidArgument
from windlass.model.job import GeneratorCall, JobSpec, Role
from windlass.model.records import TrialKind, TrialRecord, TrialState
from windlass.model.status import Event
from windlass.server.services import Services

# Seconds that a request waits for the controller before it returns without the result.
_LONG_ENOUGH = 2.0


async def suspend(services: Services, trial_id: int, *, suspended: bool) -> None:
    """Suspend or resume a trial. Do nothing if the trial is already in the requested state."""

    def change(record: TrialRecord) -> tuple[JobSpec, Sequence[Event]]:
        _check_no_shell(record)
        check_goes_on(record)
        return msgspec.structs.replace(record.spec, suspend=suspended), ()

    def is_seen(record: TrialRecord) -> bool:
        return (record.state is TrialState.SUSPENDED) is suspended

    await _steer(services, trial_id, change, is_seen)


async def scale(services: Services, trial_id: int, replicas: Mapping[str, int]) -> None:
    """Set the number of replicas in some roles. Do nothing if these numbers are already set."""

    def change(record: TrialRecord) -> tuple[JobSpec, Sequence[Event]]:
        _check_no_shell(record)
        check_goes_on(record)
        spec = _scaled(record, replicas)
        if not any(role.replicas for role in spec.roles):
            raise InvalidArgument(
                f"{name_of(record)}: at least one role needs a replica.",
                hint=f"To stop the whole trial: windlass suspend {trial_id}, or windlass "
                f"stop {trial_id}",
            )
        if spec != record.spec:
            problems = find_framework_problems(spec)
            if problems:
                raise InvalidArgument.of(problems, where=name_of(record))
            if spec.capabilities.runs_on_server:
                check_fits(spec, services.capacity, record.name, way_out="Request fewer.")
        return spec, _events(record.spec, spec)

    await _steer(services, trial_id, change)


async def _steer(
    services: Services,
    trial_id: int,
    change: Callable[[TrialRecord], tuple[JobSpec, Sequence[Event]]],
    is_seen: Callable[[TrialRecord], bool] = lambda _record: True,
) -> None:
    """Store a changed spec, wake the controller, and wait for the effect.

    The wait ends when `is_seen` returns True for the trial's record or after `_LONG_ENOUGH`
    seconds.
    """
    news = services.hub.subscribe(trial_id)
    try:
        uid = await services.trials.change_spec(trial_id, change)
        if uid is None:
            return
        services.controller.wake(uid)
        services.hub.publish(trial_id)
        deadline = time.monotonic() + _LONG_ENOUGH
        while not services.hub.is_closing:
            news.clear()
            record = await services.trials.record(trial_id)
            left = deadline - time.monotonic()
            if is_seen(record) or record.state.is_final or left <= 0:
                return
            try:
                await asyncio.wait_for(news.wait(), left)
            except asyncio.TimeoutError:
                return
    finally:
        services.hub.unsubscribe(news, trial_id)


def _scaled(record: TrialRecord, replicas: Mapping[str, int]) -> JobSpec:
    roles = {role.name: role for role in record.spec.roles}
    unknown = [name for name in replicas if name not in roles]
    if unknown:
        near = difflib.get_close_matches(unknown[0], roles, n=1, cutoff=0.5)
        guess = f"Did you mean {near[0]!r}? " if near else ""
        raise InvalidArgument(
            f"{name_of(record)} has no role {unknown[0]!r}.",
            hint=f"{guess}It has: {', '.join(roles)}.",
        )

    def resized(role: Role) -> Role:
        return msgspec.structs.replace(role, replicas=replicas.get(role.name, role.replicas))

    return msgspec.structs.replace(record.spec, roles=tuple(map(resized, record.spec.roles)))


def _events(old: JobSpec, new: JobSpec) -> list[Event]:
    changes = [
        f"{before.name} {before.replicas} -> {after.replicas}"
        for before, after in zip(old.roles, new.roles, strict=True)
        if before.replicas != after.replicas
    ]
    return [Event(time=time.time(), reason="Scaled", message=", ".join(changes))]


def _check_no_shell(record: TrialRecord) -> None:
    if record.kind is TrialKind.SHELL:
        raise Conflict(
            f"Shell {record.id} cannot be suspended, because its input would be lost.",
            hint=f"Detach from it, and return later: windlass shell attach {record.id}",
        )


def check_goes_on(record: TrialRecord) -> None:
    if isinstance(record.spec.roles[0].executable, GeneratorCall):
        raise Conflict(
            f"{name_of(record)} has no processes of its own: it consists of the trials "
            "that its generator added.",
            hint=f"Change its child trials. To list them: windlass show {record.id}",
        )
    if record.kind is TrialKind.EXTERNAL and not record.state.is_final:
        raise Conflict(
            f"{name_of(record)} was not started by Windlass, so it cannot be changed.",
            hint=f"To stop it: windlass stop {record.id}",
        )
    if record.state.is_final:
        is_plain = record.state is TrialState.SUCCEEDED or not record.message
        why = "" if is_plain else f": {record.message}"
        raise Conflict(
            f"{name_of(record)} has ended ({record.state.value}{why}).",
            hint="Only an unfinished trial can be changed. Submit it again.",
        )
    if record.state is TrialState.STOPPING:
        raise Conflict(f"{name_of(record)} is being stopped.", hint="Submit it again.")


def name_of(record: TrialRecord) -> str:
    return f"Trial {record.id} ({record.name})"
