"""Builds a rerun's arguments from the recorded arguments and the user's changes."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from windlass.authoring.checks.command_line import check_arguments, clashes, command_line
from windlass.authoring.checks.options import nearest
from windlass.authoring.prepare.exact_json import call_as_json, words_as_json, words_from_json
from windlass.authoring.prepare.programs import arguments_among, program_params, python_subject
from windlass.model.errors import InvalidArgument, shown
from windlass.model.job import Executable, FunctionCall, ProcessCall, Role
from windlass.model.records import TrialRecord
from windlass.packaging.main_script import MainScript, find_main_script
from windlass.packaging.params import describe_params
from windlass.packaging.pickling import pack_arguments


class RoleCall(NamedTuple):
    """The executable, arguments and parameters of one role in a rerun."""

    executable: Executable
    arguments: Any  # recorded for a later rerun; None if JSON cannot represent them
    params: dict[str, Any]


class Blobs(NamedTuple):
    """Functions that download pickled arguments from the server and attach them to a request."""

    fetch: Callable[[str], bytes]
    attach: Callable[[bytes], str]


def keep_arguments(record: TrialRecord, role: Role) -> RoleCall:
    """Return a role's executable and arguments, unchanged."""
    recorded = record.recipe.arguments.get(role.name)
    if len(record.spec.roles) == 1:
        return RoleCall(role.executable, recorded, record.params)
    if isinstance(role.executable, ProcessCall):
        parts = _parts(role.executable.argv, recorded)
        own, arguments = parts or (role.executable.argv, ())
        params = program_params(arguments_among(own), arguments)
        return RoleCall(role.executable, recorded, describe_params(params))
    return RoleCall(role.executable, recorded, _params_of_role(record, role))


def change_arguments(record: TrialRecord, role: Role, changes: Any, blobs: Blobs) -> RoleCall:
    """Return a role's executable and its arguments with the changes applied."""
    if isinstance(role.executable, FunctionCall):
        return _change_call(record, role, role.executable, changes, blobs)
    assert isinstance(role.executable, ProcessCall)  # noqa: S101 -- generators were refused
    return _change_words(record, role, role.executable, changes)


# -- programs -------------------------------------------------------------------------


def _change_words(record: TrialRecord, role: Role, call: ProcessCall, changes: Any) -> RoleCall:
    parts = _parts(call.argv, record.recipe.arguments.get(role.name))
    if parts is None:
        raise InvalidArgument(
            f"{_label(record, role)} has no record of the words of its command that were "
            "arguments: "
            f"{shown(shlex.join(call.argv), str)}",
            hint="Submit it again: wl.Job(wl.Command([...]), args=...), or windlass run.",
        )
    own, old = parts
    if problems := check_arguments(changes):
        raise InvalidArgument.of([text for _, text in problems], where=_label(record, role))
    if isinstance(old, Mapping) and isinstance(changes, Mapping):
        new: Any = merge_flags(old, changes)
    elif isinstance(changes, Mapping):
        _check_new(record, role, old, changes)
        new = [*old, *command_line(changes)] if old else changes
    else:
        new = changes
    if problems := check_arguments(new, arguments_among(own)):
        raise InvalidArgument.of([text for _, text in problems], where=_label(record, role))
    argv = (*own, *command_line(new))
    return RoleCall(
        ProcessCall(argv=argv),
        words_as_json(new),
        describe_params(program_params(arguments_among(own), new)),
    )


def _parts(argv: Sequence[str], recorded: Any) -> tuple[tuple[str, ...], Any] | None:
    """Split a command line into the command itself and its arguments.

    If no arguments were recorded, all words after a script or module count as arguments. Return
    None if the command line cannot be split.
    """
    if recorded is not None:
        arguments = words_from_json(recorded)
        words = command_line(arguments)
        number = len(argv) - len(words)
        return (tuple(argv[:number]), arguments) if list(argv[number:]) == words else None
    subject = python_subject(argv)
    if subject is None:
        return None
    return tuple(argv[: subject[0] + 1]), list(argv[subject[0] + 1 :])


def merge_flags(old: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Apply changes to recorded flags, which keep their recorded order and spelling.

    >>> merge_flags({"model": {"depth": 3}, "batch-size": 8}, {"model.depth": 4, "batch_size": 16})
    {'model': {'depth': 4}, 'batch-size': 16}
    """
    new = _copy(old)
    paths = {_spelling(path): path for path, _ in _leaves(old)}
    for path, value in _leaves(changes):
        own_path = paths.get(_spelling(path), path)
        inner = new
        for name in own_path[:-1]:
            if not isinstance(inner.get(name), dict):
                inner[name] = {}
            inner = inner[name]
        inner[own_path[-1]] = value
    return new


def _copy(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _copy(value) if isinstance(value, Mapping) else value
        for name, value in arguments.items()
    }


def _leaves(
    arguments: Mapping[str, Any], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in arguments.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*above, name))
        else:
            yield (*above, name), value


def _spelling(path: Sequence[str]) -> str:
    return ".".join(path).replace("-", "_")


def _check_new(
    record: TrialRecord, role: Role, old: Sequence[str], changes: Mapping[str, Any]
) -> None:
    """Raise an error if a flag to change is among the recorded words of a command line.

    Windlass cannot replace such a flag, because it does not know where its value ends.
    """
    words = command_line(old)
    problems = clashes(changes, words)
    if not problems:
        return
    names = ", ".join(dict.fromkeys(keys[-1] for keys, _ in problems))
    meant = shlex.join(_replace_flags(words, changes))
    python = f'args={{"{role.name}": [...]}}' if len(record.spec.roles) > 1 else "args=[...]"
    raise InvalidArgument(
        f"{_label(record, role)} got its arguments as a list of words, which already has {names}: "
        f"{shown(shlex.join(words), str)}",
        hint=f"Pass the whole list again, with {python} or behind --. Perhaps this:\n"
        f"windlass rerun {record.id} -- {shown(meant, str)}",
    )


def _replace_flags(words: Sequence[str], changes: Mapping[str, Any]) -> list[str]:
    """Return a command line with changed flags, as a suggestion to the user.

    This function guesses where each flag's value ends.
    """
    new = list(words)
    for path, value in _leaves(changes):
        flags = [n for n, word in enumerate(new) if _is_flag(word, path)]
        if len(flags) != 1:
            continue
        number = flags[0]
        has_value = "=" not in new[number] and not isinstance(value, bool)
        has_value = has_value and number + 1 < len(new) and not new[number + 1].startswith("--")
        new[number : number + (2 if has_value else 1)] = command_line({".".join(path): value})
    return new


def _is_flag(word: str, path: Sequence[str]) -> bool:
    name = word.partition("=")[0]
    is_flag = word.startswith("-") and name.lstrip("-") != ""
    return is_flag and _spelling([name.lstrip("-")]).removeprefix("no_") == _spelling(path)


# -- functions ------------------------------------------------------------------------


def _change_call(
    record: TrialRecord, role: Role, call: FunctionCall, changes: Any, blobs: Blobs
) -> RoleCall:
    params = _params_of_role(record, role)
    where = _label(record, role)
    if not isinstance(changes, Mapping):
        raise InvalidArgument(
            f"{where}: arguments of a function are changed by name, not as {shown(changes)}.",
            hint=f"It has: {', '.join(params)}." if params else None,
        )
    if problems := [flaw for name in changes if (flaw := _name_flaw(name, params))]:
        raise InvalidArgument.of(problems, where=where)
    code = role.code or record.spec.code
    packed = pack_arguments(changes, Path(code.root or "/"), _own_script(call, code.root))
    before = blobs.fetch(call.changes) if call.changes else b""
    digest = blobs.attach(before + packed)  # the trial applies these changes in order
    old = record.recipe.arguments.get(role.name)
    arguments = call_as_json({**old, **changes}) if isinstance(old, dict) else None
    return RoleCall(replace(call, changes=digest), arguments, _merge_params(params, changes))


def _own_script(call: FunctionCall, root: str) -> MainScript | None:
    """Return the script that the trial runs again, if this process runs the same script."""
    if call.main is None or not call.main.is_run:
        return None
    path = os.path.realpath(os.path.join(root, call.main.path))
    return find_main_script(None, Path(root), lambda file: os.path.realpath(file) == path)


def _name_flaw(name: Any, params: Mapping[str, Any]) -> str:
    if name in params or any(name in value for value in _mappings(params)):
        return ""
    near = nearest(str(name), params)
    has = (
        f"did you mean {near!r}?" if near else f"it has the arguments {', '.join(params) or 'none'}"
    )
    return f"args: there is no argument {shown(name)}; {has}"


def _merge_params(params: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Apply changes to recorded parameters.

    If a function takes `**options`, a parameter may be recorded inside the mapping of these
    options.
    """
    new = dict(params)
    for name, value in describe_params(changes).items():
        rest = next((key for key, param in params.items() if _has(param, name)), None)
        if name not in params and rest is not None:
            new[rest] = {**new[rest], name: value}
        else:
            new[name] = value
    return new


def _mappings(params: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [value for value in params.values() if isinstance(value, Mapping)]


def _has(value: Any, name: str) -> bool:
    return isinstance(value, Mapping) and name in value


def _params_of_role(record: TrialRecord, role: Role) -> dict[str, Any]:
    """Return the parameters that the original trial recorded for one role."""
    roles = [recorded.name for recorded in record.spec.roles]
    by_role = all(name in roles and isinstance(own, dict) for name, own in record.params.items())
    if len(roles) == 1 or not by_role:
        return record.params
    params: dict[str, Any] = record.params.get(role.name, {})
    return params


def _label(record: TrialRecord, role: Role) -> str:
    which = f", role {role.name}" if len(record.spec.roles) > 1 else ""
    return f"Trial {record.id} ({record.name}{which})"
