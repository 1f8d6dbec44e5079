"""Reruns a trial from its record, with optional changes.

The record contains everything that the rerun needs, so the working directory does not matter.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from windlass.authoring.checks.options import (
    Problem,
    check_env,
    check_labels,
    check_name,
    check_secrets,
    nearest,
)
from windlass.authoring.prepare.draft import build_private, mask_recipe
from windlass.authoring.prepare.job_spec import join_params
from windlass.authoring.prepare.options import (
    build_resources,
    check_resources,
    refuse_recorded_secrets,
)
from windlass.authoring.public.executors import Local
from windlass.authoring.rerun.arguments import Blobs, RoleCall, change_arguments, keep_arguments
from windlass.authoring.rerun.environment import check_environment, prepare_environment
from windlass.client.connection.transport import request_path
from windlass.model.errors import InvalidArgument, NotFound, SnapshotError, Unsupported, shown
from windlass.model.job import Code, GeneratorCall, ProcessCall, Role
from windlass.model.records import Recipe, TrialKind, TrialRecord
from windlass.model.requests import CreateTrial
from windlass.packaging.draft import Draft, mask

if TYPE_CHECKING:
    from windlass.client.client import Client


@dataclass(frozen=True)
class Changes:
    """The changes that a user requests for a rerun. A field that is None stays as recorded."""

    args: Any = None
    env: Any = None
    executor: Any = None
    name: str | None = None
    experiment: Any = None
    labels: Sequence[str] | None = None
    environment: str | None = None
    secrets: Any = None
    checkpoint: str | None = None  # the uid of the checkpoint to start from, or "" for none
    is_fork: bool | None = None


class PreparedRerun(NamedTuple):
    """The request for a rerun, and notes to show to the user."""

    draft: Draft
    notes: tuple[str, ...]


def prepare_rerun(client: Client, record: TrialRecord, changes: Changes) -> PreparedRerun:
    """Build the request for a rerun. One error lists all problems."""
    refuse_unrepeatable(record)
    check_environment(changes.environment)
    roles = record.spec.roles
    problems = [
        *check_name("name", changes.name),
        *check_labels(() if changes.labels is None else changes.labels),
        *check_secrets(changes.secrets),
        *_experiment_problems(changes.experiment),
    ]
    args = _by_role(record, "args", changes.args, problems)
    env = _by_role(record, "env", changes.env, problems)
    executors = _executors(record, changes.executor, problems)
    for variables in env.values():
        problems += check_env(variables)
    problems += _volume_problems(client, record)
    if problems:
        raise InvalidArgument.of([text for _, text in problems], where=_label(record))
    secrets = _secrets(record, changes.secrets)
    draft = Draft(_request(record, changes))
    blobs = Blobs(lambda digest: _fetch(client, record, digest), draft.attach)
    calls = {
        role.name: change_arguments(record, role, args[role.name], blobs)
        if role.name in args
        else keep_arguments(record, role)
        for role in roles
    }
    params = record.params if not args else _params(client, record, calls)
    around = prepare_environment(client, record, changes.environment, blobs)
    spec = replace(
        record.spec,
        code=_with_unknown_states(record.spec.code),
        roles=tuple(
            _role(role, calls[role.name], env.get(role.name, {}), executors.get(role.name))
            for role in roles
        ),
        python=around.python,
        secret_names=tuple(secrets),
        suspend=False,  # the rerun of a suspended trial starts at once
    )
    _keep_secrets(secrets, draft.request, spec.roles)
    arguments = {name: call.arguments for name, call in calls.items() if call.arguments is not None}
    hidden = secrets.values()
    draft.request = replace(
        draft.request,
        spec=spec,
        params=mask(params, hidden),
        provenance=replace(around.provenance, argv=mask(around.provenance.argv, hidden)),
        private=build_private(secrets, embedded=client.transport.endpoint.is_embedded),
        recipe=mask_recipe(_recipe(record, changes, arguments), hidden),
    )
    return PreparedRerun(draft, (*around.notes, *_lost_paths(client, record)))


def _recipe(record: TrialRecord, changes: Changes, arguments: dict[str, Any]) -> Recipe:
    """Return the record of how the rerun was submitted.

    Without changes, the rerun starts from the same checkpoint as the original trial.
    """
    had = record.recipe
    return Recipe(
        arguments=arguments,
        origin_id=record.id,
        template=had.template,
        checkpoint=had.checkpoint if changes.checkpoint is None else changes.checkpoint,
        is_fork=had.is_fork if changes.is_fork is None else changes.is_fork,
    )


def refuse_unrepeatable(record: TrialRecord) -> None:
    """Raise an error for a trial that cannot be run again, such as a shell."""
    if record.kind is TrialKind.SHELL:
        raise Unsupported(
            f"{_label(record)} is a shell, which cannot be repeated.",
            hint="Open another: wl.open_shell(...), or windlass shell",
        )
    if record.kind is TrialKind.EXTERNAL:
        raise Unsupported(
            f"{_label(record)} was not started by Windlass, so Windlass cannot start it again.",
            hint="Run the program again, or launch it as a trial: windlass run SCRIPT",
        )
    if any(isinstance(role.executable, GeneratorCall) for role in record.spec.roles):
        raise Unsupported(
            f"{_label(record)} is a generator: only the trials that it added can run again.",
            hint="Repeat the trials that it added one by one, or add the generator again.",
        )


def _request(record: TrialRecord, changes: Changes) -> CreateTrial:
    """Build the request for the rerun, including its experiment, labels and name.

    The rerun of an auxiliary trial is auxiliary, too. A rerun never belongs to a search or a
    generator, because they already have the original trial's result. Labels are not copied, because
    a label such as "best" describes only the original trial.
    """
    named = record.experiment or record.kind.value  # a command may have no experiment
    where: dict[str, Any] = {"experiment": named, "experiment_id": record.experiment_id}
    if isinstance(changes.experiment, str):
        where = {"experiment": changes.experiment, "project": record.project}
    elif changes.experiment is not None:
        where = {"experiment": changes.experiment.name, "experiment_id": changes.experiment.id}
    return CreateTrial(
        key=uuid.uuid4().hex,
        spec=record.spec,
        name=changes.name or record.name,
        labels=tuple(dict.fromkeys(changes.labels or ())),
        auxiliary=record.auxiliary,
        kind=record.kind,
        **where,
    )


def _role(role: Role, call: RoleCall, env: Mapping[str, str], executor: Local | None) -> Role:
    resources = role.resources
    if executor is not None:  # unset fields stay as recorded
        requested = build_resources(executor.cpus, executor.memory, executor.accelerator)
        settings = {
            name: getattr(requested, name)
            for name in ("cpus", "memory", "accelerator")
            if getattr(executor, name) is not None
        }
        if executor.cpus is not None:
            settings["threads"] = requested.threads
        resources = replace(resources, **settings)
    return replace(
        role,
        executable=call.executable,
        env={**role.env, **env},
        resources=resources,
        code=_with_unknown_states(role.code) if role.code else None,
    )


def _with_unknown_states(code: Code) -> Code:
    """Forget the states of packages that are not in the snapshot.

    The rerun imports these packages as they are now.
    """
    packages = tuple(
        package if package.folder else replace(package, state="") for package in code.packages
    )
    return replace(code, packages=packages)


def _params(client: Client, record: TrialRecord, calls: Mapping[str, RoleCall]) -> dict[str, Any]:
    """Return the parameters to record for the rerun.

    If a generator created the original trial, the generator's parameters are included.
    """
    services = [role.name for role in record.spec.roles if role.service]
    own = join_params({name: call.params for name, call in calls.items()}, services)
    if record.parent_id is None:
        return own
    parent = client.get_trial(record.parent_id)
    return {**parent.params, **own}


def _secrets(record: TrialRecord, secrets: Any) -> dict[str, str]:
    """Return the values of the secrets named by the original trial or the changes."""
    values = dict(secrets) if isinstance(secrets, Mapping) else {}
    names = dict.fromkeys((*record.spec.secret_names, *(secrets or ())))
    missing = [name for name in names if name not in values and name not in os.environ]
    if missing:
        raise InvalidArgument.of(
            [
                f"the secret {name} is not set in this environment, and its value was not "
                "recorded\n"
                f'Set it first (export {name}=...), or pass the value: secrets={{"{name}": ...}}'
                for name in missing
            ],
            where=_label(record),
        )
    return {name: values[name] if name in values else os.environ[name] for name in names}


def _keep_secrets(secrets: Mapping[str, str], request: CreateTrial, roles: Sequence[Role]) -> None:
    filed = (str(request.name), request.experiment, *request.labels)
    refuse_recorded_secrets(secrets, filed, "in name=, experiment= or labels=, which are")
    recorded = [value for role in roles for value in role.env.values()]
    calls = [role.executable for role in roles if isinstance(role.executable, ProcessCall)]
    recorded += [word for call in calls for word in call.argv]
    refuse_recorded_secrets(secrets, recorded, "in args= or env=, which are")


def _by_role(
    record: TrialRecord, option: str, changes: Any, problems: list[Problem]
) -> dict[str, Any]:
    """Split a change by role. With a single role, the whole change belongs to that role."""
    if changes is None or (isinstance(changes, Mapping) and not changes):
        return {}
    roles = [role.name for role in record.spec.roles]
    if len(roles) == 1:
        return {roles[0]: changes}
    if not isinstance(changes, Mapping):
        flaw = f"{option}: the trial has several roles; name the role ({', '.join(roles)})"
        problems.append(((option,), flaw))
        return {}
    for name in changes:
        if name not in roles:
            near = nearest(str(name), roles)
            guess = f"did you mean {near!r}?" if near else f"it has the roles {', '.join(roles)}"
            problems.append(((option,), f"{option}: there is no role {shown(name)}; {guess}"))
    return {name: value for name, value in changes.items() if name in roles}


def _executors(record: TrialRecord, changes: Any, problems: list[Problem]) -> dict[str, Local]:
    executors = _by_role(record, "executor", changes, problems)
    for executor in executors.values():
        kind = type(executor).__name__
        if not isinstance(executor, Local):
            flaw = f"executor: {shown(executor)} is not an executor that Windlass can run trials on"
            meant = f"\nTo run on the machine of the server, use wl.Local(cpus=...), not {kind}"
            problems.append((("executor",), flaw + meant))
            continue
        flaws = check_resources(executor.cpus, executor.memory, executor.accelerator)
        problems += [(keys, f"executor: {text}") for keys, text in flaws]
    return executors


def _experiment_problems(experiment: Any) -> list[Problem]:
    from windlass.client.resources.experiment.experiment import Experiment

    if experiment is None or isinstance(experiment, Experiment):
        return []
    return check_name("experiment", experiment)


def _volume_problems(client: Client, record: TrialRecord) -> list[Problem]:
    if not client.transport.endpoint.is_embedded:
        return []  # the server reports it
    return [
        (
            ("volumes",),
            f"its volume {volume.target} was {volume.source}, which no longer exists\n"
            "Restore it, or submit the job again with other volumes=.",
        )
        for volume in record.spec.volumes
        if not os.path.exists(volume.source)
    ]


def _lost_paths(client: Client, record: TrialRecord) -> list[str]:
    """Return a note for each of the original trial's import paths that no longer exists."""
    if not client.transport.endpoint.is_embedded:
        return []
    gone = [path for path in record.spec.python.extra_paths if not os.path.exists(path)]
    return [f"It imported from {path}, which no longer exists" for path in gone]


def _fetch(client: Client, record: TrialRecord, digest: str) -> bytes:
    try:
        return client.transport.fetch("GET", request_path("blobs", digest))
    except NotFound as error:
        raise SnapshotError(
            f"The server no longer has all of {_label(record)} any more.",
            hint="Submit it again from your project.",
        ) from error


def _label(record: TrialRecord) -> str:
    return f"Trial {record.id} ({record.name})"
