"""Commands and shells: run beside trials, in the code of one, of this project, or in none."""

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

from windlass.authoring.checks import Problem, check_env, check_name, check_secrets, parsing
from windlass.authoring.drafting import TO_COME, Filing, Plan, mask, private_of
from windlass.authoring.options import check_resources, keep_secrets, resources_of, secret_values
from windlass.authoring.surroundings import look_around
from windlass.client.submission import Draft
from windlass.model.errors import InvalidArgument, Unsupported, shown
from windlass.model.job import GeneratorCall, JobSpec, ProcessCall, Python, Role, ShellCall
from windlass.model.quantities import parse_duration
from windlass.model.records import NO_EXPERIMENT, Recipe, TrialKind, TrialRecord
from windlass.model.resources import Resources
from windlass.model.wire import CreateTrial
from windlass.packaging.provenance import collect

if TYPE_CHECKING:
    from windlass.client.session import Client


@dataclass(frozen=True)
class Aside:
    """How a command or a shell is to run, as the user wrote it."""

    trial: Any = None  # whose code and environment: an id, or the trial
    experiment: Any = None  # whose newest trial's: an id, a name, or the experiment
    code: bool = False  # whether in a snapshot of this project
    role: str | None = None
    cpus: float | None = None
    memory: str | int | None = None
    accelerator: str | None = None
    env: Mapping[str, str] | None = None
    secrets: Sequence[str] | Mapping[str, str] | None = None
    timeout: str | float | None = None
    name: str | None = None


def draft_command(
    client: Client, command: Sequence[str] | str, how: Aside, *, where: str = ""
) -> Draft:
    """A command that is ready to be sent; a text is a line for a shell."""
    from windlass.authoring.programs import command_name

    argv = _words(command, where)
    words = re.findall(r"[\w./-]+", command) if isinstance(command, str) else argv
    name = how.name or command_name(words or argv)
    call = ProcessCall(argv=argv)
    return _draft(client, call, replaced(how, name=name), TrialKind.COMMAND, where)


def draft_shell(
    client: Client,
    command: Sequence[str] | str | None,
    how: Aside,
    *,
    has_terminal: bool,
    size: tuple[int, int],
    where: str = "",
) -> Draft:
    """A shell that is ready to be sent."""
    from windlass.authoring.programs import command_name

    argv = () if command is None else _words(command, where)
    rows, columns = size
    call = ShellCall(argv=argv, has_terminal=has_terminal, rows=rows, columns=columns)
    env = {"TERM": _term(), **(how.env or {})} if has_terminal else how.env
    name = how.name or (command_name(argv) if argv else "shell")
    return _draft(client, call, replaced(how, env=env, name=name), TrialKind.SHELL, where)


def _words(command: Any, where: str) -> tuple[str, ...]:
    if isinstance(command, str):
        command = ["/bin/sh", "-c", command] if command.strip() else []
    is_words = isinstance(command, Sequence) and all(isinstance(word, str) for word in command)
    if not is_words or not command or not command[0]:
        flaw = (
            f"{shown(command)} is no command\n"
            'Write its words, ["nvidia-smi", "-L"], or a line for the shell: "ls | wc -l"'
        )
        raise InvalidArgument.of([flaw], where=where)
    if any("\0" in word for word in command):
        raise InvalidArgument.of(["a word of the command holds a NUL character"], where=where)
    return tuple(command)


def _term() -> str:
    """The terminal that people sit at, if they do."""
    known = os.environ.get("TERM", "")
    return known if known not in ("", "dumb", "unknown") else "xterm-256color"


def _draft(
    client: Client, call: ProcessCall | ShellCall, how: Aside, kind: TrialKind, where: str
) -> Draft:
    _check(how, where)
    role = Role(executable=TO_COME, resources=_resources(how), env=dict(how.env or {}))
    outline = JobSpec(
        roles=(role,),
        active_deadline=None if how.timeout is None else parse_duration(how.timeout),
    )
    if how.code:
        secrets = secret_values(how.secrets)
        keep_secrets(secrets, call.argv, "in the command, which is")
        filing = Filing(experiment=kind.value, experiment_id=NO_EXPERIMENT, kind=kind)
        outline = replace(outline, secret_names=tuple(secrets))
        plan = Plan(
            client, outline, look_around(),
            name=str(how.name), filing=filing, secrets=secrets, packages=None,
        )  # fmt: skip
        return plan.draft([call], {})
    origin = _origin(client, how)
    secrets = _secrets(how, origin)
    recorded = [*call.argv, *role.env.values(), str(how.name)]
    keep_secrets(secrets, recorded, "in the command, name= or env=, which are")
    spec = replace(outline, roles=(replace(role, executable=call),), secret_names=tuple(secrets))
    spec = _as_of(origin, how, spec) if origin else replace(spec, python=_own_python(client))
    provenance = collect()
    return Draft(
        CreateTrial(
            key=uuid.uuid4().hex,
            experiment=(origin.experiment if origin else "") or kind.value,
            experiment_id=origin.experiment_id if origin else NO_EXPERIMENT,
            spec=spec,
            name=how.name,
            provenance=replace(provenance, argv=mask(provenance.argv, secrets.values())),
            private=private_of(secrets, embedded=client.transport.endpoint.is_embedded),
            kind=kind,
            recipe=Recipe(code_of=origin.id if origin else None),
        ),
        programs=[call],
    )


def _check(how: Aside, where: str) -> None:
    problems: list[Problem] = [
        *check_resources(how.cpus, how.memory, how.accelerator),
        *parsing("timeout", how.timeout, parse_duration),
        *check_name("name", how.name),
        *check_env(how.env),
        *check_secrets(how.secrets),
    ]
    named = {"trial": how.trial, "experiment": how.experiment, "code": how.code or None}
    given = [name for name, value in named.items() if value is not None]
    if len(given) > 1:
        flaw = f"{' and '.join(given)}: it runs in one place\nGive one of them."
        problems.append(((given[0],), flaw))
    if problems:
        raise InvalidArgument.of([text for _, text in problems], where=where)


def _resources(how: Aside) -> Resources:
    """What is set aside for it: nothing unless asked for, so that it need not wait."""
    return replace(
        resources_of(how.cpus, how.memory, how.accelerator),
        cpus=0.0 if how.cpus is None else float(how.cpus),
    )


def _origin(client: Client, how: Aside) -> TrialRecord | None:
    """The trial whose code and environment are meant."""
    from windlass.client.experiments import Experiment
    from windlass.client.trials import Trial

    if how.trial is not None:
        found = how.trial if isinstance(how.trial, Trial) else client.get_trial(how.trial)
        return _with_code(found.record)
    if how.experiment is None:
        return None
    experiment = how.experiment
    if not isinstance(experiment, Experiment):
        experiment = client.get_experiment(experiment)
    for trial in experiment.list_trials(sort_by="-id"):
        if not _is_generated(trial.record) and trial.record.kind is not TrialKind.EXTERNAL:
            return trial.record
    raise InvalidArgument(
        f"Experiment {experiment.id} ({experiment.name}) has no trial whose code could be used.",
        hint="Add one first, or run it in this project's code: code=True",
    )


def _with_code(record: TrialRecord) -> TrialRecord:
    if _is_generated(record):
        raise Unsupported(
            f"Trial {record.id} ({record.name}) is what its generator added: it has no code.",
            hint=f"Name one of those: windlass ls -e {record.experiment_id}",
        )
    if record.kind is TrialKind.EXTERNAL:
        raise Unsupported(
            f"Trial {record.id} ({record.name}) was not started by Windlass: its code is not "
            "recorded.",
            hint="Run it in a snapshot of this project instead: code=True",
        )
    return record


def _is_generated(record: TrialRecord) -> bool:
    return isinstance(record.spec.roles[0].executable, GeneratorCall)


def _as_of(origin: TrialRecord, how: Aside, spec: JobSpec) -> JobSpec:
    """The same in the code, with the interpreter, the variables and volumes of a trial."""
    known = {role.name: role for role in origin.spec.roles}
    if how.role is not None and how.role not in known:
        raise InvalidArgument(
            f"Trial {origin.id} ({origin.name}) has no role {how.role!r}.",
            hint=f"It has: {', '.join(known)}.",
        )
    theirs = known[how.role] if how.role is not None else origin.spec.roles[0]
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


def _secrets(how: Aside, origin: TrialRecord | None) -> dict[str, str]:
    """Those that are given, and of the trial's own those that are to be had here."""
    names = origin.spec.secret_names if origin else ()
    own = {name: os.environ[name] for name in names if name in os.environ}
    return {**own, **secret_values(how.secrets)}
