"""Repeating a trial: the code, job and arguments of its record, but for what is to be other.

Nothing of the present working directory is looked at: all there is to know is in the record.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from windlass.authoring.checks import (
    Problem,
    check_env,
    check_labels,
    check_name,
    check_secrets,
    nearest,
)
from windlass.authoring.drafting import mask, mask_recipe, private_of
from windlass.authoring.executors import Local
from windlass.authoring.options import check_resources, keep_secrets, resources_of
from windlass.authoring.outlines import joined_params
from windlass.authoring.repeated_arguments import Blobs, Given, as_recorded, changed
from windlass.authoring.repeated_environment import check_environment, environment_of
from windlass.client.submission import Draft
from windlass.client.transport import path_of
from windlass.model.errors import InvalidArgument, NotFound, SnapshotError, Unsupported, shown
from windlass.model.job import GeneratorCall, ProcessCall, Role
from windlass.model.records import Recipe, TrialKind, TrialRecord
from windlass.model.wire import CreateTrial

if TYPE_CHECKING:
    from windlass.client.session import Client


@dataclass(frozen=True)
class Changes:
    """What is to be other than it was; none stays as it was."""

    args: Any = None
    env: Any = None
    executor: Any = None
    name: str | None = None
    experiment: Any = None
    labels: Sequence[str] | None = None
    environment: str | None = None
    secrets: Any = None
    checkpoint: str | None = None  # the uid of the one to begin with; empty: with none
    is_fork: bool | None = None


class Repetition(NamedTuple):
    """A trial that is ready to be repeated, and what its author should know."""

    draft: Draft
    notes: tuple[str, ...]


def prepare_rerun(client: Client, record: TrialRecord, changes: Changes) -> Repetition:
    """The draft of a trial once more; what makes no sense is all told before anything is done."""
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
        raise InvalidArgument.of([text for _, text in problems], where=_called(record))
    secrets = _secrets(record, changes.secrets)
    draft = Draft(_request(record, changes))
    blobs = Blobs(lambda digest: _fetch(client, record, digest), draft.attach)
    given = {
        role.name: changed(record, role, args[role.name], blobs)
        if role.name in args
        else as_recorded(record, role)
        for role in roles
    }
    params = record.params if not args else _params(client, record, given)
    around = environment_of(client, record, changes.environment, blobs)
    spec = replace(
        record.spec,
        roles=tuple(
            _role(role, given[role.name], env.get(role.name, {}), executors.get(role.name))
            for role in roles
        ),
        python=around.python,
        secret_names=tuple(secrets),
        suspend=False,  # however it was left: it is asked for now
    )
    _keep_secrets(secrets, draft.request, spec.roles)
    arguments = {name: each.arguments for name, each in given.items() if each.arguments is not None}
    hidden = secrets.values()
    draft.request = replace(
        draft.request,
        spec=spec,
        params=mask(params, hidden),
        provenance=replace(around.provenance, argv=mask(around.provenance.argv, hidden)),
        private=private_of(secrets, embedded=client.transport.endpoint.is_embedded),
        recipe=mask_recipe(_recipe(record, changes, arguments), hidden),
    )
    return Repetition(draft, (*around.notes, *_lost_paths(client, record)))


def _recipe(record: TrialRecord, changes: Changes, arguments: dict[str, Any]) -> Recipe:
    """Where it comes from. The same again begins with the same checkpoint."""
    had = record.recipe
    return Recipe(
        arguments=arguments,
        origin_id=record.id,
        template=had.template,
        checkpoint=had.checkpoint if changes.checkpoint is None else changes.checkpoint,
        is_fork=had.is_fork if changes.is_fork is None else changes.is_fork,
    )


def refuse_unrepeatable(record: TrialRecord) -> None:
    """Refuse what cannot be run again, whatever would be changed."""
    if record.kind is TrialKind.SHELL:
        raise Unsupported(
            f"{_called(record)} is a shell: nobody would type to it.",
            hint="Open another: wl.open_shell(...), or windlass shell",
        )
    if record.kind is TrialKind.EXTERNAL:
        raise Unsupported(
            f"{_called(record)} was not started by Windlass: it cannot be started again.",
            hint="Run its program again, or as a trial: windlass run SCRIPT",
        )
    if any(isinstance(role.executable, GeneratorCall) for role in record.spec.roles):
        raise Unsupported(
            f"{_called(record)} is what its generator added: nothing of it runs by itself.",
            hint="Repeat the trials that it added, one by one; or add the generator again.",
        )


def _request(record: TrialRecord, changes: Changes) -> CreateTrial:
    """Where the new trial belongs.

    It is no part of the search or the generator that asked for the other: those are done with
    theirs. One that only accompanies its experiment does so again.
    """
    named = record.experiment or record.kind.value  # a command may belong to none
    where: dict[str, Any] = {"experiment": named, "experiment_id": record.experiment_id}
    if isinstance(changes.experiment, str):
        where = {"experiment": changes.experiment, "project": record.project}
    elif changes.experiment is not None:
        where = {"experiment": changes.experiment.name, "experiment_id": changes.experiment.id}
    labels = record.labels if changes.labels is None else tuple(dict.fromkeys(changes.labels))
    return CreateTrial(
        key=uuid.uuid4().hex,
        spec=record.spec,
        name=changes.name or record.name,
        labels=labels,
        auxiliary=record.auxiliary,
        kind=record.kind,
        **where,
    )


def _role(role: Role, given: Given, env: Mapping[str, str], executor: Local | None) -> Role:
    resources = role.resources
    if executor is not None:  # what it does not say stays as it was
        asked = resources_of(executor.cpus, executor.memory, executor.accelerator)
        said = {
            name: getattr(asked, name)
            for name in ("cpus", "memory", "accelerator")
            if getattr(executor, name) is not None
        }
        resources = replace(resources, **said)
    return replace(role, executable=given.executable, env={**role.env, **env}, resources=resources)


def _params(client: Client, record: TrialRecord, given: Mapping[str, Given]) -> dict[str, Any]:
    """What is recorded of the arguments; one that a generator added has its parent's, too."""
    services = [role.name for role in record.spec.roles if role.service]
    own = joined_params({name: each.params for name, each in given.items()}, services)
    if record.parent_id is None:
        return own
    parent = client.get_trial(record.parent_id)
    return {**parent.params, **own}


def _secrets(record: TrialRecord, given: Any) -> dict[str, str]:
    """The secrets it had, from here, and those that are given."""
    told = dict(given) if isinstance(given, Mapping) else {}
    names = dict.fromkeys((*record.spec.secret_names, *(given or ())))
    missing = [name for name in names if name not in told and name not in os.environ]
    if missing:
        raise InvalidArgument.of(
            [
                f"the secret {name} is not set in this environment, and was not recorded\n"
                f'Set it first (export {name}=...), or give it: secrets={{"{name}": ...}}'
                for name in missing
            ],
            where=_called(record),
        )
    return {name: told[name] if name in told else os.environ[name] for name in names}


def _keep_secrets(secrets: Mapping[str, str], request: CreateTrial, roles: Sequence[Role]) -> None:
    told = (str(request.name), request.experiment, *request.labels)
    keep_secrets(secrets, told, "in name=, experiment= or labels=, which are")
    recorded = [value for role in roles for value in role.env.values()]
    calls = [role.executable for role in roles if isinstance(role.executable, ProcessCall)]
    recorded += [word for call in calls for word in call.argv]
    keep_secrets(secrets, recorded, "in args= or env=, which are")


def _by_role(
    record: TrialRecord, option: str, given: Any, problems: list[Problem]
) -> dict[str, Any]:
    """What is given of each role: of the only one as it is, of several by name."""
    if given is None or (isinstance(given, Mapping) and not given):
        return {}
    roles = [role.name for role in record.spec.roles]
    if len(roles) == 1:
        return {roles[0]: given}
    if not isinstance(given, Mapping):
        flaw = f"{option}: it has several roles: say of which, by name ({', '.join(roles)})"
        problems.append(((option,), flaw))
        return {}
    for name in given:
        if name not in roles:
            near = nearest(str(name), roles)
            guess = f"did you mean {near!r}?" if near else f"it has: {', '.join(roles)}"
            problems.append(((option,), f"{option}: there is no role {shown(name)}; {guess}"))
    return {name: value for name, value in given.items() if name in roles}


def _executors(record: TrialRecord, given: Any, problems: list[Problem]) -> dict[str, Local]:
    found = _by_role(record, "executor", given, problems)
    for executor in found.values():
        kind = type(executor).__name__
        if not isinstance(executor, Local):
            flaw = f"executor: {shown(executor)} is nothing that a server runs trials on yet"
            meant = f"\nOn the server's own machine: wl.Local(cpus=...), not {kind}"
            problems.append((("executor",), flaw + meant))
            continue
        flaws = check_resources(executor.cpus, executor.memory, executor.accelerator)
        problems += [(keys, f"executor: {text}") for keys, text in flaws]
    return found


def _experiment_problems(experiment: Any) -> list[Problem]:
    from windlass.client.experiments import Experiment

    if experiment is None or isinstance(experiment, Experiment):
        return []
    return check_name("experiment", experiment)


def _volume_problems(client: Client, record: TrialRecord) -> list[Problem]:
    if not client.transport.endpoint.is_embedded:
        return []  # the server says it
    return [
        (
            ("volumes",),
            f"its volume {each.target} was {each.source}, which is not there any more\n"
            "Put it back, or submit the job anew with other volumes=.",
        )
        for each in record.spec.volumes
        if not os.path.exists(each.source)
    ]


def _lost_paths(client: Client, record: TrialRecord) -> list[str]:
    """Where it imported from beside its code, and cannot any more."""
    if not client.transport.endpoint.is_embedded:
        return []
    gone = [path for path in record.spec.python.extra_paths if not os.path.exists(path)]
    return [f"It imported from {path}, which is not there any more" for path in gone]


def _fetch(client: Client, record: TrialRecord, digest: str) -> bytes:
    try:
        return client.transport.fetch("GET", path_of("blobs", digest))
    except NotFound as error:
        raise SnapshotError(
            f"The server does not have all of {_called(record)} any more.",
            hint="Submit it anew from your project.",
        ) from error


def _called(record: TrialRecord) -> str:
    return f"Trial {record.id} ({record.name})"
