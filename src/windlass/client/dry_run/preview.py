"""Formats a dry run's output, which shows commands, environment, resources and code."""

from __future__ import annotations

import heapq
import inspect
import os
import shlex
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from windlass.client.resources.trial.failure_tips import limit_name
from windlass.model.backends import LOCAL
from windlass.model.errors import shown
from windlass.model.job import (
    ExternalCall,
    JobSpec,
    ProcessCall,
    RestartPolicy,
    RestartScope,
    Role,
    ShellCall,
)
from windlass.model.text.quantities import format_duration, format_size
from windlass.packaging.draft import Draft
from windlass.packaging.manifest import Entry
from windlass.packaging.params import describe_params

if TYPE_CHECKING:
    from windlass.packaging.draft import Program
    from windlass.packaging.snapshot import Snapshot

Lines = Iterator[tuple[str, str]]

_LARGE = 10_000_000  # bytes; for larger code, the preview lists the largest files
_LARGEST = 3
_WIDTH = 11  # the width of the label column
_BOLD, _DIM, _END = "\x1b[1m", "\x1b[2m", "\x1b[0m"


def format_preview(draft: Draft, capacity_note: str, *, coloured: bool = False) -> str:
    """Format a prepared trial for the terminal.

    `capacity_note` states whether the machine has enough capacity.
    """
    lines = [_title(draft, coloured, "nothing was started")]
    for title, section in _sections(draft, capacity_note):
        lines += ["", _painted(title, _BOLD, coloured)] if title else [""]
        lines += _drawn(section, coloured)
    return "\n".join(lines)


def format_difference(draft: Draft, before: Draft, *, coloured: bool = False) -> str:
    """Format the differences between a prepared trial and `before`, an earlier one."""
    sections_before = {title: dict(section) for title, section in _sections(before, "")}
    lines = []
    for title, section in _sections(draft, ""):
        previous, now = sections_before.get(title, {}), dict(section)
        other = [(label, now.get(label) or "none") for label in {**now, **previous}
                 if (now.get(label) or "") != (previous.get(label) or "")]  # fmt: skip
        if other:
            lines += [_painted(title, _BOLD, coloured)] if title else []
            lines += _drawn(other, coloured)
    how = "like the one before it, but for" if lines else "like the one before it"
    return "\n".join([_title(draft, coloured, how), *lines])


def _title(draft: Draft, coloured: bool, how: str) -> str:
    name = _clean(draft.request.name or draft.request.experiment)
    return _painted(f"Dry run of {name}", _BOLD, coloured) + f": {how}"


def _drawn(lines: Iterable[tuple[str, str]], coloured: bool) -> list[str]:
    return [
        f"  {_painted(label.ljust(_WIDTH), _DIM, coloured)}  {_clean(value)}"
        for label, value in lines
        if value
    ]


def _painted(text: str, style: str, coloured: bool) -> str:
    return f"{style}{text}{_END}" if coloured else text


def commands_of(draft: Draft) -> dict[str, str]:
    """Return each role's command, as a user would type it."""
    spec = draft.request.spec
    programs = [*draft.programs, *[None] * (len(spec.roles) - len(draft.programs))]
    secrets = draft.request.private.secrets.values()
    return {
        role.name: _command(role, program, secrets)
        for role, program in zip(spec.roles, programs, strict=True)
    }


def quoted(word: str) -> str:
    r"""Quote a word for a shell. The result contains no control characters.

    >>> print(quoted("0.1"), quoted("two words"), quoted("two\nlines"))
    0.1 'two words' $'two\nlines'
    """
    if word.isprintable():
        return shlex.quote(word)
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + "".join(map(_escaped, escaped)) + "'"


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    if character in "\n\t\r":
        return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}[character]
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def _sections(draft: Draft, capacity_note: str) -> Iterator[tuple[str, Lines]]:
    spec, commands = draft.request.spec, commands_of(draft)
    if len(spec.roles) == 1:
        yield "", _chain(_of_role(spec, spec.roles[0], commands), _of_whole(draft, capacity_note))
        return
    for role in spec.roles:
        yield role.name, _of_role(spec, role, commands)
    yield "all of it", _of_whole(draft, capacity_note)


def _chain(*parts: Lines) -> Lines:
    for part in parts:
        yield from part


def _of_role(spec: JobSpec, role: Role, commands: Mapping[str, str]) -> Lines:
    yield "command", commands[role.name]
    if role.code is not None:
        yield "code", f"a copy of {role.code.root}, tree {(role.code.tree or 'none')[:12]}"
        yield "directory", role.code.workdir if role.code.workdir != "." else ""
    is_several = role.replicas != 1
    if is_several or len(spec.roles) > 1:
        yield "replicas", str(role.replicas) + (", a service" if role.service else "")
    yield "resources", str(role.resources) + (" each" if is_several else "")
    yield from _of_pods(role)
    yield "environment", " ".join(f"{name}={quoted(text)}" for name, text in role.env.items())
    yield "restarts", _restarts(spec, role)


def _of_pods(role: Role) -> Lines:
    """Yield a role's Kubernetes settings as labels and values."""
    if role.kubernetes is None:
        return
    options = role.kubernetes
    yield "namespace", options.namespace or "the server's own"
    yield "image", options.container_image or "one with its Python"
    yield "volumes", " ".join(f"{at}={quoted(source)}" for at, source in options.volumes.items())
    yield "queue", options.queue
    yield "class", options.priority_class
    yield "account", options.service_account


def _framework(spec: JobSpec) -> str:
    """Return the framework's name and the environment variables that it sets.

    Replicas use these variables to find each other.
    """
    if not spec.framework:
        return ""
    from windlass.frameworks import build_cluster, find_framework

    cluster, framework = build_cluster(spec, {}, "127.0.0.1:1"), find_framework(spec.framework)
    try:
        variables = [
            name for member in cluster.members for name in framework.variables(cluster, member)
        ]
    except Exception as error:  # noqa: BLE001 -- code of another package
        return f"{spec.framework}, which gives nothing: {type(error).__name__}: {error}"
    return spec.framework + (
        f", which sets {' '.join(dict.fromkeys(variables))}" if variables else ""
    )


def _restarts(spec: JobSpec, role: Role) -> str:
    """Describe a role's restart policy. Return "" if the role never restarts."""
    if role.restart_policy is RestartPolicy.NEVER:
        return ""
    several = sum(other.replicas for other in spec.roles) > 1
    together = ", all together" if spec.restart_scope is RestartScope.JOB and several else ""
    return f"{role.restart_policy.value}, up to {spec.backoff_limit}{together}"


def _of_whole(draft: Draft, capacity_note: str) -> Lines:
    request, spec = draft.request, draft.request.spec
    yield "backend", "" if spec.backend == LOCAL else spec.backend
    yield "experiment", request.experiment
    yield "labels", " ".join(request.labels)
    yield "template", request.recipe.template
    yield "framework", _framework(spec)
    if spec.active_deadline is not None:
        yield limit_name(spec), format_duration(spec.active_deadline)
    yield "priority", str(spec.priority or "")
    yield "suspended", "until it is resumed" if spec.suspend else ""
    yield "success", spec.success_policy.value
    yield "at its end", _cleaning(spec)
    yield "secrets", " ".join(f"{name}=***" for name in spec.secret_names)
    yield "volumes", " ".join(f"{volume.target}={quoted(volume.source)}" for volume in spec.volumes)
    yield "packages", _packages(draft)
    yield "Python", f"{spec.python.version} {spec.python.executable}".rstrip()
    yield from _of_code(spec, draft)
    yield "room", capacity_note


def _of_code(spec: JobSpec, draft: Draft) -> Lines:
    provenance = draft.request.provenance
    size = f"{provenance.tree_files:,} file{'s' if provenance.tree_files != 1 else ''}, "
    size += format_size(provenance.tree_size)
    if spec.code.tree is not None:
        yield "code", f"a copy of {spec.code.root}: {size}, tree {spec.code.tree[:12]}"
    yield "directory", f"{spec.code.workdir} in it" if spec.code.workdir != "." else ""
    if draft.snapshot is not None and provenance.tree_size >= _LARGE:
        largest = (
            f"{entry.path} ({format_size(entry.size)})" for entry in _largest(draft.snapshot)
        )
        yield "largest", ", ".join(largest)


def _largest(snapshot: Snapshot) -> list[Entry]:
    return heapq.nlargest(_LARGEST, snapshot.entries, key=lambda entry: entry.size)


def _cleaning(spec: JobSpec) -> str:
    parts = [] if spec.clean_policy.value == "Running" else [f"clean {spec.clean_policy.value}"]
    if spec.ttl_after_finished is not None:
        parts.append(f"all is stopped after {format_duration(spec.ttl_after_finished)}")
    return ", ".join(parts)


def _packages(draft: Draft) -> str:
    python = draft.request.spec.python
    if not python.packages:
        return ""
    lock = draft.blobs.get(python.lock or "", b"")
    pinned = sum(line[:1].isalnum() for line in lock.splitlines())
    return " ".join(python.packages) + (f" ({pinned} with dependencies)" if pinned else "")


# -- commands -------------------------------------------------------------------------


def _command(role: Role, program: Program | None, secrets: Collection[str]) -> str:
    executable = role.executable
    if isinstance(executable, (ProcessCall, ShellCall, ExternalCall)):
        return " ".join(map(quoted, executable.argv))
    if program is None or isinstance(program, (ProcessCall, ShellCall)):
        return f"{executable.qualname}(…)"
    name = getattr(program.function, "__qualname__", executable.qualname)
    args, kwargs = program.args, program.kwargs
    if secrets:  # mask secrets before formatting, because a repr may alter them
        args, kwargs = _without(secrets, args), _without(secrets, kwargs)
    arguments = ", ".join(_argument_texts(program.function, args, kwargs))
    return f"{_module_of(program.function)}{name}({arguments})"


def _without(secrets: Collection[str], arguments: Any) -> Any:
    from windlass.packaging.draft import mask

    if isinstance(arguments, Mapping):
        return mask(describe_params(arguments), secrets)
    named = {str(index): value for index, value in enumerate(arguments)}
    return tuple(mask(describe_params(named), secrets).values())


def _module_of(function: Any) -> str:
    """Return a function's module, followed by a dot.

    For a function in the main script, the script's name stands for the module.
    """
    module = getattr(function, "__module__", None)
    if module == "__main__":
        file = getattr(sys.modules["__main__"], "__file__", None)
        module = os.path.splitext(os.path.basename(file))[0] if file else None
    return f"{module}." if module else ""


def _argument_texts(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[str]:
    """Yield a call's arguments as `name=value`, leaving out those that were not passed."""
    try:
        signature = inspect.signature(function)
        bound = signature.bind(*args, **kwargs).arguments
    except (ValueError, TypeError):  # some C functions have no signature
        yield from map(shown, args)
        yield from (f"{name}={shown(value)}" for name, value in kwargs.items())
        return
    for name, value in bound.items():
        match signature.parameters[name].kind:
            case inspect.Parameter.VAR_POSITIONAL:
                yield from map(shown, value)
            case inspect.Parameter.VAR_KEYWORD:
                yield from (f"{key}={shown(argument)}" for key, argument in value.items())
            case _:
                yield f"{name}={shown(value)}"


def _clean(text: str) -> str:
    """Return text without control characters."""
    return text if text.isprintable() else "".join(map(_escaped, text))
