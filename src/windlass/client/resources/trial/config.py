"""Returns a trial's configuration as JSON data, with the field names of `wl.Job`."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.model.job import (
    Executable,
    ExternalCall,
    FunctionCall,
    JobSpec,
    Keep,
    ProcessCall,
    Role,
    ShellCall,
)
from windlass.model.records import TrialRecord


def config_of(record: TrialRecord) -> dict[str, Any]:
    """Return the settings that a trial was submitted with.

    For secrets, only the names are included.
    """
    spec = record.spec
    return {
        "name": record.name,
        "experiment": record.experiment,
        "project": record.project,
        "labels": list(record.labels),
        "params": _plain(record.params),
        **_whole(spec),
        "roles": {role.name: _of_role(record, role) for role in spec.roles},
        "code": _plain(msgspec.to_builtins(spec.code)),
        "python": {
            "version": spec.python.version or record.provenance.python,
            "executable": spec.python.executable or record.provenance.executable,
        },
    }


def _whole(spec: JobSpec) -> dict[str, Any]:
    return {
        "backend": spec.backend,
        "framework": spec.framework or None,
        "restart_scope": spec.restart_scope.value,
        "backoff_limit": spec.backoff_limit,
        "stop_on_repeat": spec.stop_on_repeat,
        "active_deadline": spec.active_deadline,
        "ttl_after_finished": spec.ttl_after_finished,
        "clean_policy": spec.clean_policy.value,
        "success_policy": spec.success_policy.value or None,
        "priority": spec.priority,
        "keep_last": spec.keep.last if spec.keep else None,
        "keep_best": _best(spec.keep) if spec.keep and spec.keep.best else None,
        "suspend": spec.suspend,
        "packages": list(spec.python.packages) or None,
        "secrets": list(spec.secret_names) or None,
        "volumes": {volume.target: volume.source for volume in spec.volumes} or None,
    }


def _best(keep: Keep) -> str:
    return f"{keep.best} {'max' if keep.is_max else 'min'} {keep.metric}"


def _of_role(record: TrialRecord, role: Role) -> dict[str, Any]:
    has = role.resources
    arguments = record.recipe.arguments.get(role.name)
    return {
        **_what_runs(role.executable),
        "args": _plain(record.params if arguments is None else arguments),
        "env": dict(role.env),
        "replicas": role.replicas,
        "executor": {
            "cpus": has.cpus,
            "memory": has.memory or None,
            "accelerator": str(has.accelerator) if has.accelerator else None,
            **(_plain(msgspec.to_builtins(role.kubernetes)) if role.kubernetes else {}),
        },
        "restart_policy": role.restart_policy.value,
        "service": role.service,
    }


def _what_runs(executable: Executable) -> dict[str, Any]:
    if isinstance(executable, (ProcessCall, ShellCall, ExternalCall)):
        return {"command": list(executable.argv)}
    kind = "function" if isinstance(executable, FunctionCall) else "generator"
    return {kind: executable.qualname}


def _plain(value: Any) -> Any:
    """Return a copy of a value as JSON data. Changing the copy does not affect the record."""
    return msgspec.json.decode(msgspec.json.encode(value))
