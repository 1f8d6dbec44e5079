"""Checks individual options. Jobs, job files and `@wl.run` share these checks.

Like `prepare/options.py`, this module has few imports, because every trial imports both along with
the user's module.
"""

from __future__ import annotations

import functools
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from windlass.model.backends import BACKENDS, LOCAL
from windlass.model.errors import InvalidArgument, shown
from windlass.model.text.names import name_flaw, place_flaw

T = TypeVar("T")

# A problem with an option: the key path that locates it, and a sentence that names the last key.
Problem = tuple[tuple[str, ...], str]

# Maps option names of other tools to the names that Windlass uses.
ELSEWHERE = {
    "gpu": "accelerator",
    "gpus": "accelerator",
    "num_gpus": "accelerator",
    "num_cpus": "cpus",
    "image": "container_image",
    "timeout": "active_deadline",
    "retries": "backoff_limit",
    "environment": "env",
    "requirements": "packages",
}
OF_EXECUTOR = ("cpus", "memory", "accelerator")
# True inside a trial, which imports its function's module again. Files that are missing here may
# exist on the machine that submitted the trial.
IS_TRIAL = "WINDLASS_TRIAL_ID" in os.environ
# True in a pod, which does not check Kubernetes options again, because it may lack the packages
# that the checks need.
IS_AWAY = "WINDLASS_AWAY" in os.environ
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}", re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")
_RESERVED = "WINDLASS_"
_LONGEST_TEXT = 128 * 1024 - 512  # the Linux limit for an argument, or a variable and its name
_MOST_REPLICAS = 10_000
_MOST_LABELS = 100
_MOST_RESTARTS = 1_000_000


def nearest(name: str, names: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the name most similar to `name`, ignoring case, or None if none is similar.

    >>> nearest("onfailur", ["Never", "OnFailure"])
    'OnFailure'
    """
    import difflib

    by_lower = {candidate.lower(): candidate for candidate in names}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[near[0]] if near else None


def callers_level() -> int:
    """Return how many stack frames `warnings.warn` must skip to point at the user's code."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("windlass."):
        level, frame = level + 1, frame.f_back
    return level


def format_key(name: Any) -> str:
    """Convert a mapping's key to text, even if it is not a string."""
    return name if isinstance(name, str) else shown(name)


def unknown_option(name: str, options: Sequence[str]) -> Problem:
    """Report an unknown option as a problem, and suggest a similar option."""
    meant = ELSEWHERE.get(name, name)
    near = meant if meant in options else nearest(name, options)
    guess = f"did you mean {near!r}?" if near else f"choose one of: {', '.join(options)}"
    if meant not in options and "executor" in options:
        for backend in BACKENDS.values():
            if meant in (*OF_EXECUTOR, *backend.executor_options):
                guess = f"write executor=wl.{backend.executor}({meant}=...)"
                break
    return (name,), f"there is no option {shown(name)}; {guess}"


def suggest_fields(kind: type[T]) -> type[T]:
    """Decorate a dataclass so that unknown arguments raise an error with a suggestion."""
    init: Any = kind.__init__
    # Callers only pass dataclasses, but Python's type system cannot express this.
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]

    @functools.wraps(init)
    def checked(self: T, *args: Any, **kwargs: Any) -> None:
        unknown = [unknown_option(name, names)[1] for name in kwargs if name not in names]
        if unknown:
            raise InvalidArgument.of(unknown, where=f"wl.{kind.__name__}")
        init(self, *args, **kwargs)

    # Type checkers still see the dataclass's own signature.
    kind.__init__ = checked  # type: ignore[assignment]
    return kind


def parse_problems(name: str, value: Any, parse: Callable[[Any], object]) -> list[Problem]:
    """Return a problem if `parse` raises an error for the value."""
    if value is None:
        return []
    try:
        parse(value)
    except ValueError as error:
        return [((name,), f"{name}: {error}")]
    return []


def check_cpus(cpus: Any) -> list[Problem]:
    if cpus is None:
        return []
    is_number = isinstance(cpus, (int, float)) and not isinstance(cpus, bool)
    if not is_number or (isinstance(cpus, float) and not math.isfinite(cpus)):
        return _one("cpus", f"{shown(cpus)} is not a valid number of CPUs; write 1, 4 or 0.5")
    if not 0.001 <= cpus <= 100_000:
        return _one(
            "cpus", f"{shown(cpus)} is out of range; request more than 0 and at most 100,000"
        )
    return []


def check_backend(backend: Any) -> list[Problem]:
    if backend is None or backend in tuple(BACKENDS):  # a value may be unhashable
        return []
    near = nearest(str(backend), BACKENDS)
    guess = (
        f"did you mean {near!r}?" if near else f"choose one of: {', '.join(map(repr, BACKENDS))}"
    )
    return _one("backend", f"there is no backend {shown(backend)}; {guess}")


def check_restarts(option: str, count: Any) -> list[Problem]:
    if _is_whole(count) and 0 <= count <= _MOST_RESTARTS:
        return []
    what = "retries" if option == "retries" else "restarts"
    return _one(option, f"{shown(count)} is not a valid number of {what}; write 0, 1, 2, ...")


def check_replicas(replicas: Any) -> list[Problem]:
    if _is_whole(replicas) and 1 <= replicas <= _MOST_REPLICAS:
        return []
    if _is_whole(replicas) and replicas > _MOST_REPLICAS:
        return _one(
            "replicas", f"{shown(replicas)} is out of range; a role has at most {_MOST_REPLICAS}"
        )
    return _one(
        "replicas", f"{shown(replicas)} is not a valid number of replicas; write 1, 2, 3, ..."
    )


def check_framework(framework: Any) -> list[Problem]:
    """Return a problem if the framework does not exist.

    A trial skips this check, because the framework was already checked when the trial was
    submitted.
    """
    if framework is None or IS_TRIAL:
        return []
    if not isinstance(framework, str):
        return _one(
            "framework", f"{shown(framework)} is not a framework; write a name such as 'torch'"
        )
    from windlass.frameworks import find_framework

    try:
        find_framework(framework)
    except InvalidArgument as error:
        return _one("framework", error.message)
    return []


def check_name(option: str, name: Any) -> list[Problem]:
    if name is None:
        return []
    flaw = name_flaw(name)
    return _one(option, flaw) if flaw else []


def check_project(project: Any) -> list[Problem]:
    flaw = "" if project is None else place_flaw(project)
    return _one("project", flaw) if flaw else []


def check_labels(labels: Any) -> list[Problem]:
    if isinstance(labels, str):
        return _one("labels", f"write a list: labels=[{shown(labels)}]")
    if not isinstance(labels, (Sequence, set, frozenset)):
        return _one("labels", f'{shown(labels)} is not a list; write labels=["one", "other"]')
    if len(labels) > _MOST_LABELS:
        return _one("labels", f"there are {len(labels)} labels; at most {_MOST_LABELS} are allowed")
    flaws = (name_flaw(label, "label") for label in labels)
    return [(("labels",), f"labels: {flaw}") for flaw in flaws if flaw]


def check_text(option: str, text: Any) -> list[Problem]:
    return check_type(option, text, str, "a string") if text is not None else []


def check_type(option: str, value: Any, kind: type, wanted: str) -> list[Problem]:
    return [] if isinstance(value, kind) else _one(option, f"{shown(value)} is not {wanted}")


def check_env(env: Any) -> list[Problem]:
    if env is None:
        return []
    if not isinstance(env, Mapping):
        return _one("env", f'{shown(env)} is not a mapping; write env={{"NAME": "value"}}')
    problems: list[Problem] = []
    for name, value in env.items():
        problems += _check_variable("env", name)
        if not isinstance(value, str):
            flaw = f'is {shown(value)}; a variable is a string: "{shown(value, str)}"'
        else:
            flaw = find_text_flaw(value)
        if flaw:
            problems.append((("env", format_key(name)), f"env: {format_key(name)} {flaw}"))
    return problems


def check_secrets(secrets: Any) -> list[Problem]:
    if secrets is None:
        return []
    if isinstance(secrets, str):
        return _one("secrets", f'write a list: secrets=["{shown(secrets, str)}"]')
    if not isinstance(secrets, (Mapping, Sequence)):
        return _one("secrets", "write a list of names or a mapping of names to values")
    problems = [problem for name in secrets for problem in _check_variable("secrets", name)]
    if isinstance(secrets, Mapping):
        problems += [
            (("secrets", format_key(name)), f"secrets: the value of {format_key(name)} {flaw}")
            for name, value in secrets.items()
            if (flaw := find_text_flaw(value) if isinstance(value, str) else "is not a string")
        ]
    return problems


def find_text_flaw(value: str) -> str:
    """Return why a string cannot be an argument or environment variable, or "" if it can."""
    if "\x00" in value:
        return "contains a NUL character"
    if _SURROGATE.search(value):
        return "is not valid Unicode: it contains half of a surrogate pair"
    if len(value.encode()) > _LONGEST_TEXT:
        return (
            f"has more than {_LONGEST_TEXT} bytes, more than the system passes to a "
            "program; write it to a file"
        )
    return ""


def check_volumes(volumes: Any, backend: str = LOCAL) -> list[Problem]:
    if volumes is None:
        return []
    # Another check reports unknown backends, so treat their volumes like local volumes here.
    if not BACKENDS.get(backend, BACKENDS[LOCAL]).runs_on_server:
        if IS_AWAY:
            return []
        from windlass.authoring.checks.kubernetes import check_pod_volumes

        return check_pod_volumes(volumes)
    if not isinstance(volumes, Mapping):
        return _one(
            "volumes",
            'write a mapping of paths in the trial to paths here: {"data": "/path/to/data"}',
        )
    problems: list[Problem] = []
    for target, source in volumes.items():
        keys = ("volumes", format_key(target))
        parts = target.split("/") if isinstance(target, str) else []
        while len(parts) > 1 and parts[0] == "..":
            parts.pop(0)
        if not parts or os.path.isabs(target) or ".." in parts or not any(parts):
            flaw = "must be a path relative to the working directory, like 'data' or '../data'"
            problems.append((keys, f"volumes: {shown(target)} {flaw}"))
        if not isinstance(source, (str, os.PathLike)):
            flaw = f"{shown(source)} is not a path; write volumes={{'data': '/folder/here'}}"
            problems.append((keys, f"volumes: {flaw}"))
        elif not IS_TRIAL and not os.path.exists(os.path.expanduser(source)):
            flaw = "does not exist on this machine; create it or change the path"
            problems.append((keys, f"volumes: {shown(os.fspath(source))} {flaw}"))
    return problems


def check_packages(packages: Any) -> list[Problem]:
    if packages is None or (isinstance(packages, str) and packages.endswith(".txt")):
        return []  # the file is read when the job is submitted
    if isinstance(packages, str):
        hint = f"write a list, packages=[{shown(packages)}], or the path of a .txt file"
        return _one("packages", hint)
    if not isinstance(packages, Sequence):
        return _one("packages", 'write a list: packages=["scikit-learn", "pandas==2.2"]')
    from windlass.packaging.environments import requirement_problems

    return [(("packages",), f"packages: {problem}") for problem in requirement_problems(packages)]


def _check_variable(option: str, name: Any) -> list[Problem]:
    if not isinstance(name, str) or not _ENV_NAME.fullmatch(name):
        flaw = "is not a valid variable name; use letters, digits and _, and no digit first"
        return [((option, format_key(name)), f"{option}: {shown(name)} {flaw}")]
    if name.startswith(_RESERVED):
        return [((option, name), f"{option}: {name} is set by Windlass; choose another name")]
    return []


def _one(option: str, flaw: str) -> list[Problem]:
    return [((option,), f"{option}: {flaw}")]


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
