"""Reads job files: TOML files with the fields of `wl.Job` or `wl.JobGroup`."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from windlass.authoring.checks.job import ROLE, WHOLE, job_problems, unchecked_group
from windlass.authoring.checks.options import ELSEWHERE, OF_EXECUTOR, Problem, nearest
from windlass.authoring.checks.toml_lines import Keys, TOMLDecodeError, key_lines, loads
from windlass.authoring.prepare.programs import is_command
from windlass.authoring.public.executables import (
    Command,
    Executable,
    PythonFunction,
    PythonModule,
    PythonScript,
)
from windlass.authoring.public.executors import EXECUTORS, Executor
from windlass.authoring.public.jobs import Job, JobGroup
from windlass.model.backends import LOCAL
from windlass.model.errors import InvalidArgument, shown

EXECUTABLES = ("script", "module", "command", "function")
_OF_ROLE = (*EXECUTABLES, *(name for name in ROLE if name != "executable"))
_SHOWN_KEYS = 8
_LARGEST = 1_000_000  # bytes; this bounds the read, because a pipe or a device may be endless
_WHERE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def read_job(path: str | os.PathLike[str]) -> Job | JobGroup:
    """Read a job from a TOML file. One error lists all problems with their line numbers.

    A job with a single role has all fields at the top level. A job with several roles has one table
    per role:

    ```toml
    framework = "tensorflow"
    active_deadline = "2h"

    [roles.chief]
    script = "train.py"
    args = { lr = 0.1 }

    [roles.worker]
    module = "pkg.train"
    replicas = 2
    executor = { cpus = 2, memory = "4GB" }
    ```

    Each role sets exactly one of `script`, `module`, `command` (a list of words) and `function`
    (`"pkg.module:name"`). Paths are relative to the job file. Modules are looked up from the
    working directory, and functions from the working directory and the job file's folder. `executor
    = { backend = "kubernetes", ... }` accepts the fields of `wl.Kubernetes`.
    """
    file = os.fspath(path)
    text = _read(file)
    try:
        data = loads(text)
    except TOMLDecodeError as error:
        raise _syntax_error(file, text, str(error)) from None
    except (ValueError, RecursionError):  # raised by Python itself
        flaw = "it contains a number with thousands of digits, or is nested too deeply"
        raise InvalidArgument(f"The job file {file!r} cannot be read: {flaw}.") from None
    reader = _Reader(os.path.dirname(file))
    job = reader.read(data)
    problems = [*reader.problems, *_own_problems(job, reader.problems)]
    if problems:
        raise InvalidArgument.of(_format_problems(file, text, problems))
    return job


class _Reader:
    """Builds a job from a parsed TOML document, collecting all problems."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.problems: list[Problem] = []

    def read(self, data: Mapping[str, Any]) -> Job | JobGroup:
        self._refuse_others(data, (*_OF_ROLE, *WHOLE, "roles"))
        has_roles = "roles" in data or any(map(_is_role, data.values()))
        if not has_roles:
            return Job(**self._role_fields(data, ()), **self._whole_fields(data))
        for name in data:
            if name in _OF_ROLE:
                self._note((name,), f"{name} is an option of a role; write it under [roles.…]")
        return unchecked_group(self._roles(data.get("roles", {})), self._whole_fields(data))

    def _roles(self, roles: Any) -> dict[str, Any]:
        if not isinstance(roles, dict):
            self._note(("roles",), "roles: write a table for each role: [roles.worker]")
            return {}
        return {
            name: self._role(role, ("roles", name))
            for name, role in roles.items()
            if self._is_table(role, ("roles", name), f"[roles.{name}]")
        }

    def _role(self, role: Mapping[str, Any], at: Keys) -> Job:
        for name in role:
            if name in WHOLE:
                self._note(
                    (*at, name), f"{name} is an option of the whole job; write it above [roles.…]"
                )
        self._refuse_others(role, (*_OF_ROLE, *WHOLE), at)
        return Job(**self._role_fields(role, at))

    def _role_fields(self, table: Mapping[str, Any], at: Keys) -> dict[str, Any]:
        chosen = {name: table[name] for name in ROLE if name in table}
        if "executor" in table:
            chosen["executor"] = self._executor(table["executor"], (*at, "executor"))
        return {**chosen, "executable": self._executable(table, at)}

    def _whole_fields(self, data: Mapping[str, Any]) -> dict[str, Any]:
        chosen = {name: data[name] for name in WHOLE if name in data}
        volumes, packages = chosen.get("volumes"), chosen.get("packages")
        if isinstance(volumes, dict):
            chosen["volumes"] = {
                target: self._path(source) if _is_path(target, source) else source
                for target, source in volumes.items()
            }
        if isinstance(packages, str) and packages.endswith(".txt"):
            chosen["packages"] = self._path(packages)
        return chosen

    def _executor(self, table: Any, at: Keys) -> Executor | None:
        if not self._is_table(table, at, 'executor = { cpus = 2, memory = "4GB" }'):
            return None
        backend = table.get("backend", LOCAL)
        kind = EXECUTORS.get(backend) if isinstance(backend, str) else None
        if kind is None:
            there = " or ".join(map(repr, EXECUTORS))
            self._note((*at, "backend"), f"backend: there is no {shown(backend)}; write {there}")
            return None
        options = tuple(field.name for field in fields(kind))
        self._refuse_others(table, (*options, "backend"), at)
        return kind(**{name: table[name] for name in options if name in table})

    def _executable(self, table: Mapping[str, Any], at: Keys) -> Executable | None:
        kinds = [name for name in EXECUTABLES if name in table]
        if len(kinds) != 1:
            what = f"{' and '.join(kinds)} are given" if kinds else "the job names no program"
            self._note((*at, *kinds[1:2]), f"{what}; write one of {', '.join(EXECUTABLES)}")
            return None
        [kind] = kinds
        value, where = table[kind], (*at, kind)
        if kind == "command":
            return Command(self._words(value))
        if not isinstance(value, str):
            self._note(where, f"{kind}: {shown(value)} is not a string")
            return None
        if kind == "script":
            return PythonScript(self._path(value))
        return PythonModule(value) if kind == "module" else self._function(value, where)

    def _words(self, words: Any) -> Any:
        """Return a command's words. Its program can be a path relative to the job file."""
        if not isinstance(words, list) or not words or not isinstance(words[0], str):
            return words
        program, *others = words
        beside = self._path(program)
        if os.sep in program or (not is_command(program) and os.path.isfile(beside)):
            program = beside if os.sep in beside else os.path.join(".", beside)
        return [program, *others]

    def _function(self, text: str, at: Keys) -> PythonFunction | None:
        module_name, _, name = text.partition(":")
        if not module_name or not name:
            self._note(
                at, f"function: {shown(text)} does not name a function; write 'pkg.module:name'"
            )
            return None
        # The paths stay in sys.path, because the trial imports the function through them, too.
        for folder in (os.path.abspath(self._folder), os.getcwd()):
            if folder not in sys.path:
                sys.path.insert(0, folder)
        try:
            module = importlib.import_module(module_name)
        except (Exception, SystemExit) as error:  # noqa: BLE001 -- importing runs the user's code
            self._note(at, f"function: {module_name} cannot be imported: {_reason(error)}")
            return None
        value: Any = module
        for part in name.split("."):
            if not hasattr(value, part):
                near = nearest(part, [attribute for attribute in dir(value) if attribute[0] != "_"])
                guess = f"; did you mean {f'{module_name}:{near}'!r}?" if near else ""
                self._note(at, f"function: {module_name} has no {shown(name)}{guess}")
                return None
            value = getattr(value, part)
        return PythonFunction(value)

    def _path(self, path: str) -> str:
        return os.path.normpath(os.path.join(self._folder, os.path.expanduser(path)))

    def _refuse_others(
        self, table: Mapping[str, Any], allowed: tuple[str, ...], at: Keys = ()
    ) -> None:
        for name, value in table.items():
            if name not in allowed:
                guess = _guess(name, value, allowed, at)
                self._note((*at, name), f"there is no key {shown(name)}; {guess}")

    def _is_table(self, value: Any, at: Keys, form: str) -> bool:
        if not isinstance(value, dict):
            what = "" if len(at) == 2 else f"{at[-1]}: "  # `_note` adds the name of the role
            self._note(at, f"{what}{shown(value)} is not a table; write {form}")
        return isinstance(value, dict)

    def _note(self, keys: Keys, text: str) -> None:
        role = f"{keys[1]}: " if keys[:1] == ("roles",) and len(keys) > 1 else ""
        self.problems.append((keys, role + text))


def _guess(name: str, value: Any, allowed: tuple[str, ...], at: Keys) -> str:
    """Return a hint that names the key to use instead of an unknown key."""
    if not at and _is_role(value):
        return f"write [roles.{name}]"
    meant = ELSEWHERE.get(name, name)
    if meant in OF_EXECUTOR and "executor" in allowed:
        is_plain = name == meant and isinstance(value, (str, int, float))
        return f"write executor = {{ {meant} = {json.dumps(value) if is_plain else '…'} }}"
    if at[-1:] == ("executor",):
        for backend, kind in EXECUTORS.items():
            if name in [field.name for field in fields(kind)]:
                return f'write backend = "{backend}" beside it: it is an option of a cluster'
    if meant in allowed:
        return f"write {meant}" + (" above [roles.…]" if at and meant in WHOLE else "")
    near = nearest(name, allowed)
    if near:
        return f"did you mean {near!r}?"
    more = ", ..." if len(allowed) > _SHOWN_KEYS else ""
    return f"choose one of: {', '.join(allowed[:_SHOWN_KEYS])}{more}"


def _is_path(target: str, source: Any) -> bool:
    """Return whether a volume's source is a path on this machine.

    An absolute target means that the volume is for pods, so its source is not on this machine.
    """
    return isinstance(source, str) and not target.startswith("/")


def _is_role(value: Any) -> bool:
    """Return whether a value is a role's table, recognized by its executable."""
    return isinstance(value, dict) and any(kind in value for kind in EXECUTABLES)


def _own_problems(job: Job | JobGroup, earlier: list[Problem]) -> list[Problem]:
    """Return the job's problems that reading the file did not already find."""
    reported = {keys for keys, _ in earlier}
    has_no_role = isinstance(job, JobGroup) and not job.roles and bool(reported)
    return [
        (keys, text)
        for keys, text in job_problems(job)
        if keys not in reported and not (has_no_role and keys == ("roles",))
        if not (keys[-1] == "executable" and _is_without(job, keys))
    ]


def _is_without(job: Job | JobGroup, keys: Keys) -> bool:
    """Return whether the job or role at a key path has no executable.

    The reader has already reported this problem.
    """
    role = job.roles[keys[1]] if isinstance(job, JobGroup) else job
    return role.executable is None


def _read(file: str) -> str:
    try:
        with open(file, "rb") as opened:
            data = opened.read(_LARGEST + 1)
    except OSError as error:
        from windlass.authoring.prepare.programs import describe_missing_file, nearest_file

        if isinstance(error, FileNotFoundError):
            message = f"There is no job file {describe_missing_file(file)}."
            raise InvalidArgument(message, hint=nearest_file(file)) from None
        reason = error.strerror or str(error)
        raise InvalidArgument(f"The job file {file!r} cannot be read: {reason}.") from None
    if len(data) > _LARGEST:
        raise InvalidArgument(f"The job file {file!r} is larger than {_LARGEST // 1000} KB.")
    try:
        return data.decode("utf-8-sig")  # some editors write a byte order mark
    except UnicodeDecodeError:
        raise InvalidArgument(f"The job file {file!r} is not UTF-8 text.") from None


def _format_problems(file: str, text: str, problems: list[Problem]) -> list[str]:
    lines = key_lines(text)
    located = [(_line_of(keys, lines), problem) for keys, problem in problems]
    located.sort(key=lambda line_and_text: line_and_text[0])
    return [f"{file}:{line}: {problem}" for line, problem in located]


def _line_of(keys: Keys, lines: Mapping[Keys, int]) -> int:
    """Return the line number of a key path, or else of its nearest parent that has one."""
    if keys[-1:] == ("executable",):
        kinds = ((*keys[:-1], kind) for kind in EXECUTABLES)
        keys = next((candidate for candidate in kinds if candidate in lines), keys)
    while keys and keys not in lines:
        keys = keys[:-1]
    return lines[keys] if keys else 1


def _syntax_error(file: str, text: str, message: str) -> InvalidArgument:
    where = _WHERE.search(message)
    what = _WHERE.sub("", message)
    line = int(where[1]) if where and where[1] else text.count("\n") + 1
    return InvalidArgument(f"{file}:{line}: this is not valid TOML: {what[0].lower()}{what[1:]}.")


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]
