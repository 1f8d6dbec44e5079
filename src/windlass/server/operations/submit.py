"""Submission of trials: validate a request, check its blobs, and store the trial."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.engine.fits_machine import check_fits
from windlass.model.errors import InvalidArgument, shown
from windlass.model.job import (
    Assignment,
    ExternalCall,
    FunctionCall,
    GeneratorCall,
    JobSpec,
    RestartPolicy,
    ShellCall,
)
from windlass.model.records import NO_EXPERIMENT, TrialKind, TrialRecord
from windlass.model.requests import LARGEST_PARAM, LARGEST_PARAMS, CreateTrial
from windlass.model.status import ReplicaId
from windlass.model.text.quantities import format_size
from windlass.server.db.errors import DatabaseUnavailable
from windlass.server.errors import MissingBlobs
from windlass.server.operations.generators import first_status
from windlass.server.services import Services

# A login program (kubectl credential plugin) that hangs blocks at most two threads.
_AT_ONCE = asyncio.Semaphore(2)


async def submit(services: Services, request: CreateTrial) -> TrialRecord:
    """Create a trial. If a trial with the request's key exists already, return that trial."""
    _check_params(request.params)
    if isinstance(request.spec.roles[0].executable, GeneratorCall):
        return await _submit_generated(services, request)
    key, controller = request.key, services.controller
    is_taken_in = False
    # Validate the job with the cluster here. This may take long, and the thread that stores trials
    # must not wait.
    is_here = request.spec.capabilities.runs_on_server
    elsewhere = [] if is_here else await _problems_elsewhere(services, request)

    def take_in() -> None:
        nonlocal is_taken_in
        _check(services, request, elsewhere)
        _take_blobs(services, request)
        is_taken_in = True

    try:
        record = await services.trials.create(
            request,
            before=take_in,
            begin=controller.prepare,
            then=lambda: controller.confirm(key),
        )
    except Exception:  # the client gets every error
        if is_taken_in:  # the trial is not stored, so release its capacity and delete its secrets
            controller.abandon(key)
            # Otherwise the next server start deletes the secrets.
            with contextlib.suppress(DatabaseUnavailable):
                await services.trials.unless_stored(key, lambda: services.private.erase(key))
        raise
    if record.kind is TrialKind.EXTERNAL and not record.state.is_final:
        await _make_place(services, record)
    return record


async def _make_place(services: Services, record: TrialRecord) -> None:
    """Create the directory in which an external process finds its trial and reports its state.

    An external process is one that Windlass did not start.
    """
    first = ReplicaId(record.spec.roles[0].name, 0, 1)
    await asyncio.to_thread(services.runtime.create, record.job, first, Assignment())


async def _submit_generated(services: Services, request: CreateTrial) -> TrialRecord:
    """Create a generator trial. The controller never manages such a trial."""

    def check() -> None:
        if len(request.spec.roles) > 1 or request.spec.roles[0].replicas != 1:
            raise InvalidArgument("The trial of a generator cannot have replicas.")

    return await services.trials.create(
        request,
        before=check,
        begin=lambda _job: first_status(time.time()),
        then=lambda: None,
    )


async def _problems_elsewhere(services: Services, request: CreateTrial) -> list[str]:
    """Return the problems that a remote runtime has with a job.

    Skip this check for a stored trial.
    """
    if await services.trials.by_uid([request.key]):
        return []
    async with _AT_ONCE:
        return await asyncio.to_thread(services.runtime.validate, request.spec)


def _check(services: Services, request: CreateTrial, elsewhere: list[str]) -> None:
    spec = request.spec
    is_here = spec.capabilities.runs_on_server
    runtime_problems = services.runtime.validate(spec) if is_here else elsewhere
    problems = [*_kind_problems(request), *runtime_problems]
    if not _is_plain(spec):
        from windlass.frameworks import find_framework_problems

        problems += find_framework_problems(spec)
    unknown = set(request.private.secrets) ^ set(spec.secret_names)
    if unknown:
        problems.append(f"secrets and their names differ: {', '.join(sorted(unknown))}")
    if any(isinstance(role.executable, GeneratorCall) for role in spec.roles):
        problems.append("a generator cannot be a role of a job; submit it as a trial of its own.")
    if any("\0" in value for value in request.private.environ.values()):
        problems.append("an environment variable contains a NUL character")
    if problems:
        raise InvalidArgument.of(problems)
    if is_here:
        check_fits(spec, services.capacity, request.name or request.experiment)


def _check_params(params: Mapping[str, Any]) -> None:
    """Refuse large parameters, which would make lists of trials slow."""
    total = 0
    for name, value in params.items():
        size = len(name) + len(msgspec.json.encode(value))
        if size > LARGEST_PARAM:
            raise InvalidArgument(
                f"The parameter {shown(name)} has {format_size(size)}; at most "
                f"{format_size(LARGEST_PARAM)} are possible.",
                hint="Save large data as a file or an artifact, and record its path.",
            )
        total += size
    if total > LARGEST_PARAMS:
        raise InvalidArgument(
            f"The parameters have {format_size(total)} together; at most "
            f"{format_size(LARGEST_PARAMS)} are possible.",
            hint="Save large data as a file or an artifact, and record its path.",
        )


def _kind_problems(request: CreateTrial) -> list[str]:
    """Return the conflicts between the kind of a trial and its job."""
    problems = []
    is_shell = any(isinstance(role.executable, ShellCall) for role in request.spec.roles)
    if is_shell != (request.kind is TrialKind.SHELL):
        problems.append("a shell needs the kind 'shell', and only a shell has it.")
    if is_shell and not _is_plain(request.spec):
        problems.append("a shell has one role, one replica and no framework.")
    is_external = any(isinstance(role.executable, ExternalCall) for role in request.spec.roles)
    if is_external != (request.kind is TrialKind.EXTERNAL):
        problems.append(
            "an external process needs the kind 'external', and only an external process has it."
        )
    if is_external and not (_is_plain(request.spec) and _never_starts_again(request.spec)):
        problems.append("an external process has one role, one replica and no restarts.")
    if request.experiment_id == NO_EXPERIMENT and request.kind.is_listed:
        problems.append("it has no experiment; only a command or a shell may have none.")
    return problems


def _never_starts_again(spec: JobSpec) -> bool:
    return spec.roles[0].restart_policy is RestartPolicy.NEVER and not spec.suspend


def _is_plain(spec: JobSpec) -> bool:
    """Return whether a job is a single process, to which the rules about roles do not apply."""
    is_one = len(spec.roles) == 1 and spec.roles[0].replicas == 1
    return is_one and not spec.framework and not spec.success_policy.value


def _take_blobs(services: Services, request: CreateTrial) -> None:
    for digest, data in request.attachments.items():
        try:
            services.blobs.put(data, digest=digest)
        except ValueError as error:
            raise InvalidArgument(f"An attachment is damaged: {error}.") from error
    spec = request.spec
    calls = [r.executable for r in spec.roles if isinstance(r.executable, FunctionCall)]
    needed = [digest for call in calls for digest in (call.payload, call.changes)]
    needed += [spec.python.lock, request.provenance.packages]
    trees = [spec.code.tree, *(role.code.tree for role in spec.roles if role.code)]
    digests = [digest for digest in (*needed, *trees) if digest]
    missing = services.blobs.missing(digests, trees=filter(None, trees))
    if missing:
        raise MissingBlobs(missing)
    services.private.keep(request.key, request.private)
