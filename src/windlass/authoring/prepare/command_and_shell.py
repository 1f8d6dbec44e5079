"""Builds the requests for trials that run commands or interactive shells."""

from __future__ import annotations

import os
import re
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as replaced
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from windlass.authoring.checks.options import (
    Problem,
    check_env,
    check_name,
    check_secrets,
    parse_problems,
)
from windlass.authoring.prepare.call_site import read_call_site
from windlass.authoring.prepare.draft import TO_COME, Filing, Plan, build_private
from windlass.authoring.prepare.options import (
    build_resources,
    check_resources,
    refuse_recorded_secrets,
    secret_values,
)
from windlass.model.errors import InvalidArgument, Unsupported, shown
from windlass.model.hardware.resources import Resources
from windlass.model.job import GeneratorCall, JobSpec, ProcessCall, Python, Role, ShellCall
from windlass.model.records import NO_EXPERIMENT, Recipe, TrialKind, TrialRecord
from windlass.model.requests import CreateTrial
from windlass.model.text.quantities import parse_duration
from windlass.packaging.draft import Draft, mask
from windlass.packaging.provenance import collect

if TYPE_CHECKING:
    from windlass.client.client import Client


@dataclass(frozen=True)
class CommandOptions:
    """The user-supplied options of a command or an interactive shell."""

    trial: Any = None  # the trial that supplies code and environment, or its id
    experiment: Any = None  # id or name of the experiment whose newest trial supplies them
    code: bool = False  # if True, a new snapshot of this project is used
    role: str | None = None
    cpus: float | None = None
    memory: str | int | None = None
    accelerator: str | None = None
    env: Mapping[str, str] | None = None
    secrets: Sequence[str] | Mapping[str, str] | None = None
    timeout: str | float | None = None
    name: str | None = None


def draft_command(
    client: Client, command: Sequence[str] | str, options: CommandOptions, *, where: str = ""
) -> Draft:
    """Build the request for a trial that runs a command.

    If `command` is a string, `/bin/sh` runs it.
    """
    from windlass.authoring.prepare.programs import command_name

    argv = _words(command, where)
    words = re.findall(r"[\w./-]+", command) if isinstance(command, str) else argv
    name = options.name or command_name(words or argv)
    call = ProcessCall(argv=argv)
    return _draft(client, call, replaced(options, name=name), TrialKind.COMMAND, where)


def draft_shell(
    client: Client,
    command: Sequence[str] | str | None,
    options: CommandOptions,
    *,
    has_terminal: bool,
    size: tuple[int, int],
    where: str = "",
) -> Draft:
    """Build the request for a trial that runs an interactive shell."""
    from windlass.authoring.prepare.programs import command_name

    argv = () if command is None else _words(command, where)
    rows, columns = size
    call = ShellCall(argv=argv, has_terminal=has_terminal, rows=rows, columns=columns)
    env = {"TERM": _term(), **(options.env or {})} if has_terminal else options.env
    name = options.name or (command_name(argv) if argv else "shell")
    return _draft(client, call, replaced(options, env=env, name=name), TrialKind.SHELL, where)


def _words(command: Any, where: str) -> tuple[str, ...]:
    if isinstance(command, str):
        command = ["/bin/sh", "-c", command] if command.strip() else []
    is_words = isinstance(command, Sequence) and all(isinstance(word, str) for word in command)
    if not is_words or not command or not command[0]:
        flaw = (
            f"{shown(command)} is not a command\n"
            'Write a list of words, ["nvidia-smi", "-L"], or a shell line: "ls | wc -l"'
        )
        raise InvalidArgument.of([flaw], where=where)
    if any("\0" in word for word in command):
        raise InvalidArgument.of(["a word of the command contains a NUL character"], where=where)
    return tuple(command)


def _term() -> str:
    """Return the user's terminal type, or a default type."""
    term = os.environ.get("TERM", "")
    return term if term not in ("", "dumb", "unknown") else "xterm-256color"


def _draft(
    client: Client,
    call: ProcessCall | ShellCall,
    options: CommandOptions,
    kind: TrialKind,
    where: str,
) -> Draft:
    _check(options, where)
    role = Role(executable=TO_COME, resources=_resources(options), env=dict(options.env or {}))
    outline = JobSpec(
        roles=(role,),
        active_deadline=None if options.timeout is None else parse_duration(options.timeout),
    )
    if options.code:
        secrets = secret_values(options.secrets)
        refuse_recorded_secrets(secrets, call.argv, "in the command, which is")
        filing = Filing(experiment=kind.value, experiment_id=NO_EXPERIMENT, kind=kind)
        outline = replace(outline, secret_names=tuple(secrets))
        plan = Plan(
            client, outline, read_call_site(),
            name=str(options.name), filing=filing, secrets=secrets, packages=None,
        )  # fmt: skip
        return plan.draft([call], {})
    origin = _origin(client, options)
    secrets = _secrets(options, origin)
    recorded = [*call.argv, *role.env.values(), str(options.name)]
    refuse_recorded_secrets(secrets, recorded, "in the command, name= or env=, which are")
    spec = replace(outline, roles=(replace(role, executable=call),), secret_names=tuple(secrets))
    spec = (
        _apply_origin(origin, options, spec)
        if origin
        else replace(spec, python=_own_python(client))
    )
    provenance = collect()
    return Draft(
        CreateTrial(
            key=uuid.uuid4().hex,
            experiment=(origin.experiment if origin else "") or kind.value,
            experiment_id=origin.experiment_id if origin else NO_EXPERIMENT,
            spec=spec,
            name=options.name,
            provenance=replace(provenance, argv=mask(provenance.argv, secrets.values())),
            private=build_private(secrets, embedded=client.transport.endpoint.is_embedded),
            kind=kind,
            recipe=Recipe(code_of=origin.id if origin else None),
        ),
        programs=[call],
    )


def _check(options: CommandOptions, where: str) -> None:
    problems: list[Problem] = [
        *check_resources(options.cpus, options.memory, options.accelerator),
        *parse_problems("timeout", options.timeout, parse_duration),
        *check_name("name", options.name),
        *check_env(options.env),
        *check_secrets(options.secrets),
    ]
    named = {"trial": options.trial, "experiment": options.experiment, "code": options.code or None}
    sources = [name for name, value in named.items() if value is not None]
    if len(sources) > 1:
        flaw = f"{' and '.join(sources)}: it runs in one place\nGive one of them."
        problems.append(((sources[0],), flaw))
    if problems:
        raise InvalidArgument.of([text for _, text in problems], where=where)


def _resources(options: CommandOptions) -> Resources:
    """Return the resources to reserve for a command or shell.

    By default, nothing is reserved, so that the command need not wait in the queue.
    """
    return replace(
        build_resources(options.cpus, options.memory, options.accelerator),
        cpus=0.0 if options.cpus is None else float(options.cpus),
    )


def _origin(client: Client, options: CommandOptions) -> TrialRecord | None:
    """Return the trial that supplies the command's code and environment, or None."""
    from windlass.client.resources.experiment.experiment import Experiment
    from windlass.client.resources.trial.trial import Trial

    if options.trial is not None:
        trial = options.trial
        trial = trial if isinstance(trial, Trial) else client.get_trial(trial)
        return _with_code(trial.record)
    if options.experiment is None:
        return None
    experiment = options.experiment
    if not isinstance(experiment, Experiment):
        experiment = client.get_experiment(experiment)
    for trial in experiment.list_trials(sort_by="-id"):
        if not _is_generated(trial.record) and trial.record.kind is not TrialKind.EXTERNAL:
            return trial.record
    raise InvalidArgument(
        f"Experiment {experiment.id} ({experiment.name}) has no trial with recorded code.",
        hint="Add one first, or run it in this project's code: code=True",
    )


def _with_code(record: TrialRecord) -> TrialRecord:
    if _is_generated(record):
        raise Unsupported(
            f"Trial {record.id} ({record.name}) was added by a generator call and has no "
            "code of its own.",
            hint=f"Use a trial that it added: windlass ls -e {record.experiment_id}",
        )
    if record.kind is TrialKind.EXTERNAL:
        raise Unsupported(
            f"Trial {record.id} ({record.name}) was not started by Windlass, so its code "
            "is not recorded.",
            hint="Run it in a snapshot of this project instead: code=True",
        )
    return record


def _is_generated(record: TrialRecord) -> bool:
    return isinstance(record.spec.roles[0].executable, GeneratorCall)


def _apply_origin(origin: TrialRecord, options: CommandOptions, spec: JobSpec) -> JobSpec:
    """Copy the code, interpreter, environment variables and volumes of `origin` to `spec`."""
    roles = {role.name: role for role in origin.spec.roles}
    if options.role is not None and options.role not in roles:
        raise InvalidArgument(
            f"Trial {origin.id} ({origin.name}) has no role {options.role!r}.",
            hint=f"It has: {', '.join(roles)}.",
        )
    theirs = roles[options.role] if options.role is not None else origin.spec.roles[0]
    [role] = spec.roles
    return replace(
        spec,
        roles=(replace(role, env={**theirs.env, **role.env}),),
        code=theirs.code or origin.spec.code,
        python=origin.spec.python,
        volumes=origin.spec.volumes,
    )


def _own_python(client: Client) -> Python:
    is_embedded = client.transport.endpoint.is_embedded
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return Python(executable=sys.executable if is_embedded else "", version=version)


def _secrets(options: CommandOptions, origin: TrialRecord | None) -> dict[str, str]:
    """Return the values of the secrets named by the options or the trial `origin`.

    A secret that only `origin` names is left out if this process's environment does not contain it.
    """
    names = origin.spec.secret_names if origin else ()
    own = {name: os.environ[name] for name in names if name in os.environ}
    return {**own, **secret_values(options.secrets)}
