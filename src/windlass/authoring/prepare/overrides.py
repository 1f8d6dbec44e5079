"""Changes a job's arguments and environment variables."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from windlass.authoring.checks.command_line import DEEPEST, check_arguments, command_line
from windlass.authoring.checks.options import Problem, format_key, nearest
from windlass.authoring.prepare.programs import plain_function, unwrap
from windlass.authoring.public.executables import PythonFunction
from windlass.authoring.public.jobs import Job, JobBase, JobGroup
from windlass.model.errors import shown

J = TypeVar("J", bound=JobBase)


def replace_fields(job: J, **changes: Any) -> J:
    """Return a copy of a job with some fields replaced. The copy is not checked here."""
    new = object.__new__(type(job))
    new.__dict__.update(job.__dict__, **changes)
    return new


def with_arguments(job: J, args: Any) -> tuple[J, list[Problem]]:
    """Change a job's arguments. Return the new job and the problems with the changes.

    For a group, `args` maps each role to its arguments: `{"learner": {"lr": 0.1}}`.
    """
    return _apply_by_role(
        job,
        args,
        "args",
        lambda role, changes: merge_arguments(role.executable, role.args, changes),
    )


def with_env(job: J, env: Any) -> tuple[J, list[Problem]]:
    """Change a job's environment variables. For a group, `env` has one mapping per role."""
    return _apply_by_role(job, env, "env", lambda role, changes: _merge_env(role.env, changes))


def merge_arguments(executable: Any, own: Any, changes: Any) -> Any:
    """Apply `changes` to `own`, the current arguments of an executable.

    Two mappings are merged by name, at all levels of nesting. A new list replaces an old list. A
    mapping and a list are joined into one list, in which the mapping becomes flags. For a function,
    each changed argument is replaced as a whole.

    >>> merge_arguments(None, {"lr": 1, "model": {"depth": 3, "width": 8}}, {"model": {"depth": 4}})
    {'lr': 1, 'model': {'depth': 4, 'width': 8}}
    >>> merge_arguments(None, ["data"], {"lr": 0.1}), merge_arguments(None, {"lr": 0.1}, ["data"])
    (['data', '--lr=0.1'], ['--lr=0.1', 'data'])
    """
    if own is None or not _is_arguments(own) or not _is_arguments(changes):
        return changes
    what = unwrap(executable)
    if isinstance(what, PythonFunction):
        return _merge_call(plain_function(what.function), own, changes)
    if isinstance(own, Mapping) is isinstance(changes, Mapping):
        return _merge_nested(own, changes) if isinstance(own, Mapping) else changes
    flags = own if isinstance(own, Mapping) else changes
    if check_arguments(flags):
        return flags  # the job's own check then reports the problem
    words = command_line(flags)
    return [*words, *changes] if flags is own else [*own, *words]


def _apply_by_role(
    job: J, overrides: Any, option: str, apply: Callable[[Job, Any], Any]
) -> tuple[J, list[Problem]]:
    if overrides is None:
        return job, []
    if isinstance(job, Job):
        return replace_fields(job, **{option: apply(job, overrides)}), []
    assert isinstance(job, JobGroup)  # noqa: S101 -- a job is a Job or a JobGroup
    role_names = ", ".join(job.roles)
    if not isinstance(overrides, Mapping):
        flaw = f"a group takes them by role ({role_names}), not as {shown(overrides)}"
        return job, [((option,), f"{option}: {flaw}")]
    problems: list[Problem] = []
    roles = dict(job.roles)
    for name, value in overrides.items():
        if name in roles:
            roles[name] = replace_fields(roles[name], **{option: apply(roles[name], value)})
            continue
        near = nearest(format_key(name), roles)
        guess = f"did you mean {near!r}?" if near else f"a group takes them by role: {role_names}"
        problems.append(((option, format_key(name)), f"{option}: no role {shown(name)}; {guess}"))
    return replace_fields(job, roles=roles), problems


def _merge_env(own: Any, changes: Any) -> Any:
    if isinstance(own, Mapping) and isinstance(changes, Mapping):
        return {**own, **changes}
    return changes


def _merge_nested(
    own: Mapping[str, Any], changes: Mapping[str, Any], left: int = DEEPEST
) -> dict[str, Any]:
    """Merge nested mappings down to a maximum depth, because a mapping can contain itself."""
    both = dict(own)
    for name, value in changes.items():
        before = both.get(name)
        if left and isinstance(before, Mapping) and isinstance(value, Mapping):
            both[name] = _merge_nested(before, value, left - 1)
        else:
            both[name] = value
    return both


def _merge_call(function: Callable[..., Any], own: Any, changes: Any) -> Any:
    """Merge two sets of a function's arguments. Each set may be a list or a mapping."""
    if isinstance(own, Mapping) is not isinstance(changes, Mapping):
        own, changes = _by_name(function, own), _by_name(function, changes)
    if isinstance(own, Mapping) and isinstance(changes, Mapping):
        return {**own, **changes}
    return changes


def _by_name(function: Callable[..., Any], arguments: Any) -> Any:
    """Convert a function's positional arguments to a mapping by parameter name.

    Arguments that the function does not accept are returned unchanged.
    """
    if isinstance(arguments, Mapping):
        return arguments
    try:
        bound = inspect.signature(function).bind_partial(*arguments)
    except (TypeError, ValueError):
        return arguments
    kinds = [bound.signature.parameters[name].kind for name in bound.arguments]
    named = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return dict(bound.arguments) if all(kind is named for kind in kinds) else arguments


def _is_arguments(value: Any) -> bool:
    is_list = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
    return is_list or isinstance(value, Mapping)
