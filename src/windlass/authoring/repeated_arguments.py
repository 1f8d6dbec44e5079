"""The arguments of a trial that is repeated: those of its record, some of them changed."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from windlass.authoring.arguments import check_arguments, clashes, command_line
from windlass.authoring.checks import nearest
from windlass.authoring.programs import arguments_among, program_params, python_subject
from windlass.authoring.recording import call_as_json, words_as_json, words_from_json
from windlass.model.errors import InvalidArgument, shown
from windlass.model.job import Executable, FunctionCall, ProcessCall, Role
from windlass.model.records import TrialRecord
from windlass.packaging.params import describe_params
from windlass.packaging.pickling import pack_arguments


class Given(NamedTuple):
    """What a role runs with, and what is recorded of it."""

    executable: Executable
    arguments: Any  # as they can be given once more; none if they cannot
    params: dict[str, Any]


class Blobs(NamedTuple):
    """Where pickled arguments come from and go to."""

    fetch: Callable[[str], bytes]
    attach: Callable[[bytes], str]


def as_recorded(record: TrialRecord, role: Role) -> Given:
    """A role just as it was."""
    recorded = record.recipe.arguments.get(role.name)
    if len(record.spec.roles) == 1:
        return Given(role.executable, recorded, record.params)
    if isinstance(role.executable, ProcessCall):
        parts = _parts(role.executable.argv, recorded)
        own, arguments = parts or (role.executable.argv, ())
        params = program_params(arguments_among(own), arguments)
        return Given(role.executable, recorded, describe_params(params))
    return Given(role.executable, recorded, _params_of_role(record, role))


def changed(record: TrialRecord, role: Role, given: Any, blobs: Blobs) -> Given:
    """A role with other arguments laid over those it had."""
    if isinstance(role.executable, FunctionCall):
        return _other_call(record, role, role.executable, given, blobs)
    assert isinstance(role.executable, ProcessCall)  # noqa: S101 -- generators are refused before
    return _other_words(record, role, role.executable, given)


# -- programs -------------------------------------------------------------------------


def _other_words(record: TrialRecord, role: Role, call: ProcessCall, given: Any) -> Given:
    parts = _parts(call.argv, record.recipe.arguments.get(role.name))
    if parts is None:
        raise InvalidArgument(
            f"{_called(record, role)} does not say which words of its command were arguments: "
            f"{shown(shlex.join(call.argv), str)}",
            hint="Submit it anew: wl.Job(wl.Command([...]), args=...), or windlass run.",
        )
    own, old = parts
    if problems := check_arguments(given):
        raise InvalidArgument.of([text for _, text in problems], where=_called(record, role))
    if isinstance(old, Mapping) and isinstance(given, Mapping):
        new: Any = laid_over(old, given)
    elif isinstance(given, Mapping):
        _check_new(record, role, old, given)
        new = [*old, *command_line(given)] if old else given
    else:
        new = given
    if problems := check_arguments(new, arguments_among(own)):
        raise InvalidArgument.of([text for _, text in problems], where=_called(record, role))
    argv = (*own, *command_line(new))
    return Given(
        ProcessCall(argv=argv),
        words_as_json(new),
        describe_params(program_params(arguments_among(own), new)),
    )


def _parts(argv: Sequence[str], recorded: Any) -> tuple[tuple[str, ...], Any] | None:
    """The command's own words, and the arguments that come behind them, as they were given.

    Where that was not recorded, everything behind a script or module is a list of arguments.
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


def laid_over(old: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping of flags with others over it, each in the place and spelling it had.

    >>> laid_over({"model": {"depth": 3}, "batch-size": 8}, {"model.depth": 4, "batch_size": 16})
    {'model': {'depth': 4}, 'batch-size': 16}
    """
    new = _copy(old)
    places = {_spelling(path): path for path, _ in _leaves(old)}
    for path, value in _leaves(given):
        place = places.get(_spelling(path), path)
        inner = new
        for name in place[:-1]:
            if not isinstance(inner.get(name), dict):
                inner[name] = {}
            inner = inner[name]
        inner[place[-1]] = value
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
    record: TrialRecord, role: Role, old: Sequence[str], given: Mapping[str, Any]
) -> None:
    """Refuse a flag that is in a list of words already: where its value ends is not known."""
    words = command_line(old)
    found = clashes(given, words)
    if not found:
        return
    names = ", ".join(dict.fromkeys(keys[-1] for keys, _ in found))
    meant = shlex.join(_replaced(words, given))
    python = f'args={{"{role.name}": [...]}}' if len(record.spec.roles) > 1 else "args=[...]"
    raise InvalidArgument(
        f"{_called(record, role)} was given its arguments as a list of words, which has {names} "
        f"already: {shown(shlex.join(words), str)}",
        hint=f"Give the whole list anew, with {python} or behind --. Perhaps this:\n"
        f"windlass rerun {record.id} -- {shown(meant, str)}",
    )


def _replaced(words: Sequence[str], given: Mapping[str, Any]) -> list[str]:
    """The words with other values where their flags are, as they are commonly read: a guess."""
    new = list(words)
    for path, value in _leaves(given):
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


def _other_call(
    record: TrialRecord, role: Role, call: FunctionCall, given: Any, blobs: Blobs
) -> Given:
    params = _params_of_role(record, role)
    where = _called(record, role)
    if not isinstance(given, Mapping):
        raise InvalidArgument(
            f"{where}: arguments of a function are changed by name, not as {shown(given)}.",
            hint=f"It has: {', '.join(params)}." if params else None,
        )
    if problems := [flaw for name in given if (flaw := _name_flaw(name, params))]:
        raise InvalidArgument.of(problems, where=where)
    code = role.code or record.spec.code
    packed = pack_arguments(given, Path(code.root or "/"))
    before = blobs.fetch(call.changes) if call.changes else b""
    changes = blobs.attach(before + packed)  # applied one after the other
    old = record.recipe.arguments.get(role.name)
    arguments = call_as_json({**old, **given}) if isinstance(old, dict) else None
    return Given(replace(call, changes=changes), arguments, _noted(params, given))


def _name_flaw(name: Any, params: Mapping[str, Any]) -> str:
    if name in params or any(name in value for value in _mappings(params)):
        return ""
    near = nearest(str(name), params)
    has = f"did you mean {near!r}?" if near else f"it has: {', '.join(params) or 'none'}"
    return f"args: there is no argument {shown(name)}; {has}"


def _noted(params: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with others over them; what was among `**options` is noted there."""
    new = dict(params)
    for name, value in describe_params(given).items():
        rest = next((key for key, each in params.items() if _has(each, name)), None)
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
    """What was recorded of one role: by its name, unless all had the same."""
    roles = [each.name for each in record.spec.roles]
    by_role = all(name in roles and isinstance(each, dict) for name, each in record.params.items())
    if len(roles) == 1 or not by_role:
        return record.params
    found: dict[str, Any] = record.params.get(role.name, {})
    return found


def _called(record: TrialRecord, role: Role) -> str:
    which = f", role {role.name}" if len(record.spec.roles) > 1 else ""
    return f"Trial {record.id} ({record.name}{which})"
