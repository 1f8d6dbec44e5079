"""Validates submissions and checks their blobs. `stores/trials/rows.py` writes the new rows."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from windlass.engine.fits_machine import check_fits
from windlass.model.errors import InvalidArgument, WindlassError, shown
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
from windlass.model.requests import (
    LARGEST_PARAM,
    LARGEST_PARAMS,
    CreateTrial,
    CreateTrials,
    Private,
)
from windlass.model.status import ReplicaId
from windlass.model.text.quantities import format_size
from windlass.server.db.base import Connection
from windlass.server.db.errors import DatabaseUnavailable
from windlass.server.errors import MissingBlobs
from windlass.server.operations.generators import first_status
from windlass.server.services import Services
from windlass.server.stores.blobs.unwritten import check_digest

_ANY_CALL = FunctionCall(payload="0" * 64)
_AT_ONCE = asyncio.Semaphore(2)  # so that hanging login programs block only a few threads


async def submit(services: Services, request: CreateTrial) -> TrialRecord:
    """Create a trial. If a trial with the request's key already exists, return that trial."""
    _check_params(request.params)
    if isinstance(request.spec.roles[0].executable, GeneratorCall):
        return await _submit_generated(services, request)
    batch = _Batch([request], request.attachments, request.private)
    [record] = await _create(services, batch)
    if record.kind is TrialKind.EXTERNAL and not record.state.is_final:
        await _make_place(services, record)
    return record


async def submit_all(services: Services, data: CreateTrials) -> list[TrialRecord]:
    """Create all of a request's trials or none. For a known key, return the existing trial."""
    for number, request in enumerate(data.trials, 1):
        with _naming(number, len(data.trials)):
            _check_params(request.params)
            if request.kind in (TrialKind.EXTERNAL, TrialKind.SHELL):
                raise InvalidArgument(f"The kind {request.kind.value!r} needs its own request.")
            if request.attachments or request.private != Private():
                raise InvalidArgument(
                    "Attachments and private data belong to the whole list of trials."
                )
    requests = [
        msgspec.structs.replace(request, provenance=data.provenance) for request in data.trials
    ]
    return await _create(services, _Batch(requests, data.attachments, data.private))


class _Batch(NamedTuple):
    """Requests for trials that have the same private data."""

    requests: Sequence[CreateTrial]
    attachments: Mapping[str, bytes]
    private: Private


async def _create(services: Services, batch: _Batch) -> list[TrialRecord]:
    """Create a batch's trials in one transaction."""
    controller = services.controller
    accepted: list[str] = []
    rows: dict[str, bytes] = {}
    # Ask the cluster here, because its answer may take long and the thread that stores trials must
    # not wait.
    elsewhere = await _problems_elsewhere(services, batch.requests)

    def take_in(connection: Connection, new: Sequence[CreateTrial]) -> None:
        _check_all(services, new, batch.private, elsewhere)
        accepted.extend(request.key for request in new)
        rows.update(_take_blobs(services, new, batch.attachments))
        services.unwritten.insert(connection, rows)
        services.private.keep([request.key for request in new], batch.private)

    def confirm(new: Sequence[CreateTrial]) -> None:
        services.unwritten.inserted(rows)
        for request in new:
            controller.confirm(request.key)

    try:
        return await services.trials.create(
            batch.requests, before=take_in, begin=controller.prepare, then=confirm
        )
    except Exception:  # the client gets every error
        for key in accepted:  # release the capacity and delete the secrets
            controller.abandon(key)
        if accepted:
            with contextlib.suppress(DatabaseUnavailable):  # otherwise, the next start does this
                await services.trials.unless_stored(accepted, services.private.erase)
        raise


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

    [record] = await services.trials.create(
        [request],
        before=lambda _connection, _new: check(),
        begin=lambda _job: first_status(time.time()),
        then=lambda _new: None,
    )
    return record


async def _problems_elsewhere(
    services: Services, requests: Sequence[CreateTrial]
) -> dict[bytes, list[str]]:
    """Return the objections of remote runtimes to the requested jobs, by each job's `_outline`.

    Trials that are already stored are not checked again.
    """
    remote = [request for request in requests if not request.spec.capabilities.runs_on_server]
    if not remote:
        return {}
    stored = await services.trials.by_uid([request.key for request in remote])
    specs = {_outline(r.spec): r.spec for r in remote if r.key not in stored}
    problems = {}
    for outline, spec in specs.items():
        async with _AT_ONCE:
            problems[outline] = await asyncio.to_thread(services.runtime.validate, spec)
    return problems


def _outline(spec: JobSpec) -> bytes:
    """Encode a job without its function calls, so that equal jobs of a batch have one outline."""
    roles = tuple(
        msgspec.structs.replace(role, executable=_ANY_CALL)
        if isinstance(role.executable, FunctionCall)
        else role
        for role in spec.roles
    )
    return msgspec.json.encode(msgspec.structs.replace(spec, roles=roles))


@contextlib.contextmanager
def _naming(number: int, count: int) -> Iterator[None]:
    """Add a trial's number in the list of requested trials to any error raised in the block."""
    try:
        yield
    except WindlassError as error:
        if count > 1:
            error.message = f"Trial {number} of {count}: {error.message}"
        raise


def _check_all(
    services: Services,
    requests: Sequence[CreateTrial],
    private: Private,
    elsewhere: Mapping[bytes, list[str]],
) -> None:
    if any("\0" in value for value in private.environ.values()):
        raise InvalidArgument.of(["an environment variable contains a NUL character"])
    odd = [name for name in private.environ if not name or "=" in name]
    if odd:
        raise InvalidArgument.of([f"{shown(odd[0])} cannot be the name of an environment variable"])
    checked: set[bytes] = set()
    for number, request in enumerate(requests, 1):
        with _naming(number, len(requests)):
            problems = _kind_problems(request)
            outline = _outline(request.spec) if len(requests) > 1 or elsewhere else b""
            if outline not in checked:
                problems += _spec_problems(services, request.spec, private)
                problems += elsewhere.get(outline, [])
                checked.add(outline)
            if problems:
                raise InvalidArgument.of(problems)
            if request.spec.capabilities.runs_on_server:
                check_fits(request.spec, services.capacity, request.name or request.experiment)


def _spec_problems(services: Services, spec: JobSpec, private: Private) -> list[str]:
    is_here = spec.capabilities.runs_on_server
    problems = list(services.runtime.validate(spec)) if is_here else []
    if not _is_plain(spec):
        from windlass.frameworks import find_framework_problems

        problems += find_framework_problems(spec)
    unknown = set(private.secrets) ^ set(spec.secret_names)
    if unknown:
        problems.append(f"secrets and their names differ: {', '.join(sorted(unknown))}")
    if any(isinstance(role.executable, GeneratorCall) for role in spec.roles):
        problems.append("a generator cannot be a role of a job; submit it as a trial of its own.")
    return problems


def _check_params(params: Mapping[str, Any]) -> None:
    """Refuse large parameters, because they would make trial lists slow."""
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
    """Return a problem for each conflict between the kind of a requested trial and its job."""
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
    """Return whether a job is a single process, so that the rules about roles do not apply."""
    is_one = len(spec.roles) == 1 and spec.roles[0].replicas == 1
    return is_one and not spec.framework and not spec.success_policy.value


def _take_blobs(
    services: Services, requests: Sequence[CreateTrial], attachments: Mapping[str, bytes]
) -> dict[str, bytes]:
    """Store the attachments, and check that the server has all other blobs that the trials need.

    Return the small attachments, which the caller stores in the database together with the trials.
    """
    rows = {}
    for digest, data in attachments.items():
        try:
            if services.unwritten.accepts(data) and not services.blobs.has(digest):
                check_digest(data, digest)
                rows[digest] = data
            else:
                services.blobs.put(data, digest=digest)
        except ValueError as error:
            raise InvalidArgument(f"An attachment is damaged: {error}.") from error
    needed: dict[str, None] = {}
    trees: dict[str, None] = {}
    for request in requests:
        spec = request.spec
        calls = [r.executable for r in spec.roles if isinstance(r.executable, FunctionCall)]
        payloads = [call.payload for call in calls]
        digests = [*payloads, *(call.changes for call in calls)]
        digests += [spec.python.lock, request.provenance.packages]
        own_trees = [spec.code.tree, *(role.code.tree for role in spec.roles if role.code)]
        needed |= dict.fromkeys(filter(None, (*digests, *own_trees)))
        # A call that has large values names their blobs, just as a tree names its files' blobs.
        trees |= dict.fromkeys(filter(None, (*payloads, *own_trees)))
    others = [digest for digest in needed if digest not in rows]
    missing = services.blobs.missing(others, trees=[tree for tree in trees if tree not in rows])
    if missing:
        raise MissingBlobs(missing)
    return rows
