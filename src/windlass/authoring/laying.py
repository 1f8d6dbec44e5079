"""What is given with a job laid over what it says itself: its arguments, its environment."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from windlass.authoring.arguments import DEEPEST, check_arguments, command_line
from windlass.authoring.checks import Problem, key_of, nearest
from windlass.authoring.executables import PythonFunction
from windlass.authoring.jobs import Job, JobGroup, Whole
from windlass.authoring.programs import plain_function, unpacked
from windlass.model.errors import shown

J = TypeVar("J", bound=Whole)


def changed(job: J, **changes: Any) -> J:
    """The same job but for some fields. It is checked when it is prepared, not now."""
    new = object.__new__(type(job))
    new.__dict__.update(job.__dict__, **changes)
    return new


def with_arguments(job: J, args: Any) -> tuple[J, list[Problem]]:
    """The job with arguments over its own, and what is wrong with them.

    For a group they are by role: `{"learner": {"lr": 0.1}}`.
    """
    return _laid(job, args, "args", lambda role, given: merged(role.executable, role.args, given))


def with_env(job: J, env: Any) -> tuple[J, list[Problem]]:
    """The job with variables over its own, by name; for a group by role."""
    return _laid(job, env, "env", lambda role, given: _over(role.env, given))


def merged(executable: Any, own: Any, given: Any) -> Any:
    """Arguments laid over others of one executable.

    A mapping changes a mapping by name, nested ones too; a list takes the place of a list; what
    is of another kind comes behind. Of a function, each argument is replaced whole.

    >>> merged(None, {"lr": 1, "model": {"depth": 3, "width": 8}}, {"model": {"depth": 4}})
    {'lr': 1, 'model': {'depth': 4, 'width': 8}}
    >>> merged(None, ["data"], {"lr": 0.1}), merged(None, {"lr": 0.1}, ["data"])
    (['data', '--lr=0.1'], ['--lr=0.1', 'data'])
    """
    if own is None or not _is_arguments(own) or not _is_arguments(given):
        return given
    what = unpacked(executable)
    if isinstance(what, PythonFunction):
        return _call_merged(plain_function(what.function), own, given)
    if isinstance(own, Mapping) is isinstance(given, Mapping):
        return _nested(own, given) if isinstance(own, Mapping) else given
    flags = own if isinstance(own, Mapping) else given
    if check_arguments(flags):
        return flags  # no words come of it, which is told when the job is checked
    words = command_line(flags)
    return [*words, *given] if flags is own else [*own, *words]


def _laid(
    job: J, given: Any, option: str, lay: Callable[[Job, Any], Any]
) -> tuple[J, list[Problem]]:
    if given is None:
        return job, []
    if isinstance(job, Job):
        return changed(job, **{option: lay(job, given)}), []
    assert isinstance(job, JobGroup)  # noqa: S101 -- there is no third kind
    known = ", ".join(job.roles)
    if not isinstance(given, Mapping):
        flaw = f"of a group they are given by role ({known}), not as {shown(given)}"
        return job, [((option,), f"{option}: {flaw}")]
    problems: list[Problem] = []
    roles = dict(job.roles)
    for name, value in given.items():
        if name in roles:
            roles[name] = changed(roles[name], **{option: lay(roles[name], value)})
            continue
        near = nearest(key_of(name), roles)
        guess = f"did you mean {near!r}?" if near else f"of a group they are by role: {known}"
        problems.append(((option, key_of(name)), f"{option}: no role {shown(name)}; {guess}"))
    return changed(job, roles=roles), problems


def _over(own: Any, given: Any) -> Any:
    if isinstance(own, Mapping) and isinstance(given, Mapping):
        return {**own, **given}
    return given


def _nested(
    own: Mapping[str, Any], given: Mapping[str, Any], left: int = DEEPEST
) -> dict[str, Any]:
    """One mapping over another; those that hold themselves are refused when the job is checked."""
    both = dict(own)
    for name, value in given.items():
        before = both.get(name)
        if left and isinstance(before, Mapping) and isinstance(value, Mapping):
            both[name] = _nested(before, value, left - 1)
        else:
            both[name] = value
    return both


def _call_merged(function: Callable[..., Any], own: Any, given: Any) -> Any:
    """The arguments of a function: those in a list have the names of its parameters."""
    if isinstance(own, Mapping) is not isinstance(given, Mapping):
        own, given = _by_name(function, own), _by_name(function, given)
    if isinstance(own, Mapping) and isinstance(given, Mapping):
        return {**own, **given}
    return given


def _by_name(function: Callable[..., Any], arguments: Any) -> Any:
    """Positional arguments by name, if they can be; what is wrong is told when they are bound."""
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
