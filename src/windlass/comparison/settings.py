"""Converts a trial's record to named values that can be compared with those of another trial."""

from __future__ import annotations

import os.path
import shlex
from typing import Any

import msgspec

from windlass.model.job import (
    Executable,
    ExternalCall,
    FunctionCall,
    GeneratorCall,
    JobSpec,
    ProcessCall,
    RestartPolicy,
    Role,
    ShellCall,
)
from windlass.model.records import TrialRecord


def trees_of(spec: JobSpec) -> dict[str, str | None]:
    """Return the digest of each role's code tree."""
    return {role.name: (role.code or spec.code).tree for role in spec.roles}


def is_builder(record: TrialRecord) -> bool:
    """Return True if a trial is a generator, which only adds other trials."""
    return any(isinstance(role.executable, GeneratorCall) for role in record.spec.roles)


def settings_of(spec: JobSpec) -> dict[str, Any]:
    """Return a job's resources and policies by name.

    If the job has several roles, each name starts with its role's name.
    """
    settings: dict[str, Any] = {
        "framework": spec.framework,
        "backend": spec.backend,
        "deadline": spec.active_deadline,
        "priority": spec.priority,
        "clean policy": spec.clean_policy.value,
        "success policy": spec.success_policy.value,
        "kept after its end": spec.ttl_after_finished,
        "directory": spec.code.workdir,
        "import paths": [path for path in spec.code.import_paths if path != "."],
        "secrets": sorted(spec.secret_names),
    }
    if any(role.restart_policy is not RestartPolicy.NEVER for role in spec.roles):
        settings["restart scope"] = spec.restart_scope.value
        settings["backoff limit"] = spec.backoff_limit
        settings["stop on repeat"] = spec.stop_on_repeat or None
    settings |= {f"volume {volume.target}": volume.source for volume in spec.volumes}
    for role in spec.roles:
        before = f"{role.name}: " if len(spec.roles) > 1 else ""
        settings |= {before + name: value for name, value in _of_role(role).items()}
    return {name: value for name, value in settings.items() if value not in (None, "", [])}


def commands_of(spec: JobSpec, *, arguments: bool) -> dict[str, Any]:
    """Return each role's command or function.

    With `arguments=False`, commands are returned without their arguments.
    """
    describe = command_of if arguments else program_of
    what = "command" if arguments else "program"
    several = len(spec.roles) > 1
    return {
        f"{role.name}: {what}" if several else what: describe(role.executable)
        for role in spec.roles
    }


def command_of(executable: Executable) -> str:
    """Return an executable's command on one line.

    >>> command_of(ProcessCall(argv=("python", "train.py", "--name", "a b")))
    "python train.py --name 'a b'"
    """
    if isinstance(executable, ShellCall):
        return shlex.join(executable.argv) or "$SHELL"
    if isinstance(executable, (ProcessCall, ExternalCall)):
        return shlex.join(executable.argv)
    return f"{executable.qualname}(…)"


def program_of(executable: Executable) -> str:
    """Return an executable's program, without arguments.

    >>> program_of(ProcessCall(argv=("python", "-u", "train.py", "--lr", "0.1")))
    'train.py'
    >>> program_of(ProcessCall(argv=("python", "-m", "pkg.train", "--lr", "0.1")))
    '-m pkg.train'
    """
    if not isinstance(executable, ProcessCall):
        return command_of(executable)
    first, *words = executable.argv
    if first != "python":
        return shlex.quote(first)
    for position, word in enumerate(words):
        if word in ("-m", "-c"):
            return shlex.join(words[position : position + 2])
        if not word.startswith("-"):
            return shlex.quote(word)
    return first


def payloads_of(spec: JobSpec) -> list[tuple[str, str | None]]:
    """Return the digests of a job's pickled function calls.

    The digests show differences that the recorded arguments may not show.
    """
    calls = [role.executable for role in spec.roles]
    return [(call.payload, call.changes) for call in calls if isinstance(call, FunctionCall)]


def environment_of(record: TrialRecord) -> dict[str, Any]:
    """Return a trial's environment, such as its host and Python version, without packages."""
    provenance, spec = record.provenance, record.spec
    environment: dict[str, Any] = {
        "Python": provenance.python or spec.python.version,
        "interpreter": spec.python.executable or provenance.executable,
        "platform": provenance.platform,
        "host": provenance.host,
        "user": provenance.user,
        "Windlass": provenance.windlass,
        "packages asked for": list(spec.python.packages),
        "root": os.path.normpath(spec.code.root) if spec.code.root else "",
    }
    for role in spec.roles:
        before = f"{role.name}: env " if len(spec.roles) > 1 else "env "
        environment |= {before + name: value for name, value in role.env.items()}
    return {name: value for name, value in environment.items() if value not in (None, "", [])}


def git_of(record: TrialRecord) -> dict[str, Any]:
    """Return the commit, branch and dirty flag of a trial's code."""
    git = record.provenance.git
    if git is None:
        return {}
    state = {"commit": git.commit, "branch": git.branch, "uncommitted changes": git.dirty}
    return {name: value for name, value in state.items() if value != ""}


def outcome_of(record: TrialRecord) -> dict[str, Any]:
    """Return a trial's outcome: its state, error, result and so on."""
    error = f"{record.error.type}: {record.error.message}" if record.error else ""
    outcome = {
        "state": record.state.value,
        "reason": record.reason,
        "exit code": record.exit_code,
        "signal": record.signal,
        "restarts": record.restarts or None,
        "error": error,
        "result": record.result.text if record.result else None,
    }
    return {name: value for name, value in outcome.items() if value not in (None, "")}


def about(record: TrialRecord) -> dict[str, Any]:
    """Return a trial's name, experiment, project and labels."""
    fields = {
        "name": record.name,
        "experiment": f"{record.experiment} ({record.experiment_id})",
        "project": record.project,
        "labels": sorted(record.labels),
    }
    return {name: value for name, value in fields.items() if value not in ("", [])}


def _of_role(role: Role) -> dict[str, Any]:
    resources = role.resources
    return {
        "role": role.name,
        "replicas": role.replicas,
        "cpus": resources.cpus,
        "memory": resources.memory or None,
        "accelerator": str(resources.accelerator) if resources.accelerator else None,
        "restart policy": role.restart_policy.value,
        "service": role.service or None,
        "directory": role.code.workdir if role.code else None,
        **{
            f"kubernetes {name.replace('_', ' ')}": value
            for name, value in msgspec.to_builtins(role.kubernetes or {}).items()
        },
    }
