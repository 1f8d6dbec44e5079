"""Job files: the fields of `wl.Job` and `wl.JobGroup` in TOML."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from windlass.authoring.checks import ELSEWHERE, OF_EXECUTOR, Problem, nearest
from windlass.authoring.executables import (
    Command,
    Executable,
    PythonFunction,
    PythonModule,
    PythonScript,
)
from windlass.authoring.executors import Kubernetes, Local
from windlass.authoring.jobs import Job, JobGroup
from windlass.authoring.problems import ROLE, WHOLE, job_problems, unchecked_group
from windlass.authoring.programs import is_command
from windlass.authoring.tomllines import Keys, TOMLDecodeError, key_lines, loads
from windlass.model.errors import InvalidArgument, shown
from windlass.model.job import KUBERNETES, LOCAL

EXECUTABLES = ("script", "module", "command", "function")
_OF_ROLE = (*EXECUTABLES, *(name for name in ROLE if name != "executable"))
_EXECUTORS: dict[str, type[Local] | type[Kubernetes]] = {LOCAL: Local, KUBERNETES: Kubernetes}
_OF_KUBERNETES = tuple(each.name for each in fields(Kubernetes))
_SHOWN_KEYS = 8
_LARGEST = 1_000_000  # bytes; a pipe or a device may have no end
_WHERE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def read_job(path: str | os.PathLike[str]) -> Job | JobGroup:
    """The job that a file describes; everything wrong in it is told at once, with its line.

    A single job has its fields at the top; one with roles has a table for each:

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

    What runs is one of `script`, `module`, `command` (a list of words) and `function`
    (`"pkg.module:name"`). Paths are relative to the file; modules are looked for from the working
    directory, and functions from both. `executor = { backend = "kubernetes", ... }` has the fields
    of `wl.Kubernetes`.
    """
    file = os.fspath(path)
    text = _read(file)
    try:
        data = loads(text)
    except TOMLDecodeError as error:
        raise _syntax_error(file, text, str(error)) from None
    except (ValueError, RecursionError):  # which are of Python itself
        flaw = "it holds a number of thousands of digits, or is nested too deeply"
        raise InvalidArgument(f"The job file {file!r} cannot be read: {flaw}.") from None
    reader = _Reader(os.path.dirname(file))
    job = reader.read(data)
    problems = [*reader.problems, *_own_problems(job, reader.problems)]
    if problems:
        raise InvalidArgument.of(_told(file, text, problems))
    return job


class _Reader:
    """Makes a job of a document, as far as it can be made, and notes what is wrong with it."""

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
                self._note((name,), f"{name} is said of each role: write it under [roles.…]")
        return unchecked_group(self._roles(data.get("roles", {})), self._whole_fields(data))

    def _roles(self, roles: Any) -> dict[str, Any]:
        if not isinstance(roles, dict):
            self._note(("roles",), "roles: write a table for each: [roles.worker]")
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
                    (*at, name), f"{name} is said of the whole job: write it above [roles.…]"
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

    def _executor(self, table: Any, at: Keys) -> Local | Kubernetes | None:
        if not self._is_table(table, at, 'executor = { cpus = 2, memory = "4GB" }'):
            return None
        backend = table.get("backend", LOCAL)
        kind = _EXECUTORS.get(backend) if isinstance(backend, str) else None
        if kind is None:
            there = " or ".join(map(repr, _EXECUTORS))
            self._note((*at, "backend"), f"backend: there is no {shown(backend)}; write {there}")
            return None
        known = tuple(each.name for each in fields(kind))
        self._refuse_others(table, (*known, "backend"), at)
        return kind(**{name: table[name] for name in known if name in table})

    def _executable(self, table: Mapping[str, Any], at: Keys) -> Executable | None:
        given = [name for name in EXECUTABLES if name in table]
        if len(given) != 1:
            what = f"{' and '.join(given)} are given" if given else "nothing to run is given"
            self._note((*at, *given[1:2]), f"{what}; write one of {', '.join(EXECUTABLES)}")
            return None
        [kind] = given
        value, where = table[kind], (*at, kind)
        if kind == "command":
            return Command(self._words(value))
        if not isinstance(value, str):
            self._note(where, f"{kind}: {shown(value)} is not a text")
            return None
        if kind == "script":
            return PythonScript(self._path(value))
        return PythonModule(value) if kind == "module" else self._function(value, where)

    def _words(self, words: Any) -> Any:
        """The command; its program, if it is a file, is relative to the job file as others are."""
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
            self._note(at, f"function: {shown(text)} names none; write 'pkg.module:name'")
            return None
        # They stay: the trial imports the function from where it is found here.
        for folder in (os.path.abspath(self._folder), os.getcwd()):
            if folder not in sys.path:
                sys.path.insert(0, folder)
        try:
            module = importlib.import_module(module_name)
        except (Exception, SystemExit) as error:  # noqa: BLE001 -- importing runs the user's code
            self._note(at, f"function: {module_name} cannot be imported: {_reason(error)}")
            return None
        found: Any = module
        for part in name.split("."):
            if not hasattr(found, part):
                near = nearest(part, [each for each in dir(found) if each[0] != "_"])
                guess = f"; did you mean {f'{module_name}:{near}'!r}?" if near else ""
                self._note(at, f"function: {module_name} has no {shown(name)}{guess}")
                return None
            found = getattr(found, part)
        return PythonFunction(found)

    def _path(self, path: str) -> str:
        return os.path.normpath(os.path.join(self._folder, os.path.expanduser(path)))

    def _refuse_others(
        self, table: Mapping[str, Any], known: tuple[str, ...], at: Keys = ()
    ) -> None:
        for name, value in table.items():
            if name not in known:
                guess = _guess(name, value, known, at)
                self._note((*at, name), f"there is no key {shown(name)}; {guess}")

    def _is_table(self, value: Any, at: Keys, form: str) -> bool:
        if not isinstance(value, dict):
            what = "" if len(at) == 2 else f"{at[-1]}: "  # a role is named anyway
            self._note(at, f"{what}{shown(value)} is no table; write {form}")
        return isinstance(value, dict)

    def _note(self, keys: Keys, text: str) -> None:
        role = f"{keys[1]}: " if keys[:1] == ("roles",) and len(keys) > 1 else ""
        self.problems.append((keys, role + text))


def _guess(name: str, value: Any, known: tuple[str, ...], at: Keys) -> str:
    """What was probably meant by a key that there is not."""
    if not at and _is_role(value):
        return f"write [roles.{name}]"
    meant = ELSEWHERE.get(name, name)
    if meant in OF_EXECUTOR and "executor" in known:
        is_plain = name == meant and isinstance(value, (str, int, float))
        return f"write executor = {{ {meant} = {json.dumps(value) if is_plain else '…'} }}"
    if at[-1:] == ("executor",) and name in _OF_KUBERNETES:
        return 'write backend = "kubernetes" beside it: it is said of a cluster'
    if meant in known:
        return f"write {meant}" + (" above [roles.…]" if at and meant in WHOLE else "")
    near = nearest(name, known)
    more = ", ..." if len(known) > _SHOWN_KEYS else ""
    return (
        f"did you mean {near!r}?" if near else f"there are: {', '.join(known[:_SHOWN_KEYS])}{more}"
    )


def _is_path(target: str, source: Any) -> bool:
    """Whether a volume's source is of this machine: a pod's has an absolute target."""
    return isinstance(source, str) and not target.startswith("/")


def _is_role(value: Any) -> bool:
    """Whether it is a table of something to run."""
    return isinstance(value, dict) and any(kind in value for kind in EXECUTABLES)


def _own_problems(job: Job | JobGroup, found: list[Problem]) -> list[Problem]:
    """What is wrong with the job itself, but for what was told already."""
    told = {keys for keys, _ in found}
    has_no_role = isinstance(job, JobGroup) and not job.roles and bool(told)
    return [
        (keys, text)
        for keys, text in job_problems(job)
        if keys not in told and not (has_no_role and keys == ("roles",))
        if not (keys[-1] == "executable" and _is_without(job, keys))
    ]


def _is_without(job: Job | JobGroup, keys: Keys) -> bool:
    """Whether nothing to run could be made out, which has been said."""
    role = job.roles[keys[1]] if isinstance(job, JobGroup) else job
    return role.executable is None


def _read(file: str) -> str:
    try:
        with open(file, "rb") as opened:
            data = opened.read(_LARGEST + 1)
    except OSError as error:
        from windlass.authoring.programs import nearest_file, place_looked

        if isinstance(error, FileNotFoundError):
            told = f"There is no job file {place_looked(file)}."
            raise InvalidArgument(told, hint=nearest_file(file)) from None
        reason = error.strerror or str(error)
        raise InvalidArgument(f"The job file {file!r} cannot be read: {reason}.") from None
    if len(data) > _LARGEST:
        raise InvalidArgument(f"The job file {file!r} is larger than {_LARGEST // 1000} KB.")
    try:
        return data.decode("utf-8-sig")  # some editors begin a file with a mark
    except UnicodeDecodeError:
        raise InvalidArgument(f"The job file {file!r} is no UTF-8 text.") from None


def _told(file: str, text: str, problems: list[Problem]) -> list[str]:
    lines = key_lines(text)
    placed = [(_line_of(keys, lines), problem) for keys, problem in problems]
    placed.sort(key=lambda each: each[0])
    return [f"{file}:{line}: {problem}" for line, problem in placed]


def _line_of(keys: Keys, lines: Mapping[Keys, int]) -> int:
    """Where something stands, or else the nearest around it."""
    if keys[-1:] == ("executable",):
        kinds = ((*keys[:-1], kind) for kind in EXECUTABLES)
        keys = next((each for each in kinds if each in lines), keys)
    while keys and keys not in lines:
        keys = keys[:-1]
    return lines[keys] if keys else 1


def _syntax_error(file: str, text: str, message: str) -> InvalidArgument:
    where = _WHERE.search(message)
    what = _WHERE.sub("", message)
    line = int(where[1]) if where and where[1] else text.count("\n") + 1
    return InvalidArgument(f"{file}:{line}: this is no TOML: {what[0].lower()}{what[1:]}.")


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]
