"""The options of `@wl.run`, checked all at once before anything is packaged.

A trial imports the module its function is from, and so decorates again: what only a submission
needs is imported there.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from windlass.model.accelerators import parse_accelerator
from windlass.model.errors import InvalidArgument, Unsupported
from windlass.model.quantities import parse_duration, parse_size

if TYPE_CHECKING:
    from windlass.model.job import RestartPolicy, Volume
    from windlass.model.resources import Resources

BACKENDS = ("local",)
# A trial imports the module it is from: what is not there may well be where it was sent from.
_IS_TRIAL = "WINDLASS_TRIAL_ID" in os.environ
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}", re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")
_RESERVED = "WINDLASS_"


@dataclass(frozen=True)
class Options:
    """How a function or command is to be run, as the user wrote it."""

    accelerator: str | None = None
    cpus: float | None = None
    memory: str | int | None = None
    backend: str | None = None
    container_image: str | None = None
    env: Mapping[str, str] | None = None
    secrets: Sequence[str] | Mapping[str, str] | None = None
    packages: Sequence[str] | str | None = None
    retries: int = 0
    timeout: str | float | None = None
    name: str | None = None
    experiment: str | None = None
    cluster: str | None = None
    volumes: Mapping[str, str | os.PathLike[str]] | None = None
    spot: bool = False

    def changed(self, changes: Mapping[str, Any], where: str) -> Options:
        """The same options but for some, all of them checked."""
        known = [field.name for field in fields(self)]
        unknown = [_unknown(name, known) for name in changes if name not in known]
        chosen = replace(self, **{name: changes[name] for name in changes if name in known})
        return chosen.check(where, unknown)

    def check(self, where: str, found: Sequence[str] = ()) -> Options:
        """Refuse what makes no sense, all of it in one error with what was found before."""
        problems = [*found, *self._nonsense()]
        refused = self._unsupported()
        if problems:
            raise InvalidArgument.of([*problems, *refused], where=where)
        if refused:
            raise Unsupported.of(refused, where=where)
        return self

    # -- what the options come to -----------------------------------------------------

    @property
    def backend_name(self) -> str:
        return self.backend or "local"

    def resources(self) -> Resources:
        """What one replica asks for."""
        from windlass.model.resources import Accelerator, Resources

        asked = parse_accelerator(self.accelerator)
        return Resources(
            cpus=float(self.cpus) if self.cpus is not None else 1.0,
            memory=parse_size(self.memory) if self.memory is not None else 0,
            accelerator=Accelerator(kind=asked[0], count=asked[1]) if asked else None,
        )

    def deadline(self) -> float | None:
        """The timeout in seconds."""
        return None if self.timeout is None else parse_duration(self.timeout)

    def restart_policy(self) -> RestartPolicy:
        """A function runs once unless retries are asked for."""
        from windlass.model.job import RestartPolicy

        return RestartPolicy.ON_FAILURE if self.retries else RestartPolicy.NEVER

    def mounted(self) -> tuple[Volume, ...]:
        """The volumes, their sources made absolute."""
        from windlass.model.job import Volume

        return tuple(
            Volume(target=target, source=os.path.abspath(os.path.expanduser(source)))
            for target, source in (self.volumes or {}).items()
        )

    def secret_values(self) -> dict[str, str]:
        """The secrets, those given by name alone taken from this environment now."""
        if self.secrets is None:
            return {}
        if isinstance(self.secrets, Mapping):
            return dict(self.secrets)
        missing = [name for name in self.secrets if name not in os.environ]
        if missing:
            raise InvalidArgument.of(
                [
                    f"secret {name!r} is not set in this environment\n"
                    f'Set it first (export {name}=...), or give it: secrets={{"{name}": ...}}'
                    for name in missing
                ]
            )
        return {name: os.environ[name] for name in self.secrets}

    def without_secret_values(self) -> Options:
        """The same options, secrets by name alone."""
        return replace(self, secrets=tuple(self.secrets)) if self.secrets else self

    # -- what can be wrong with them --------------------------------------------------

    def _nonsense(self) -> list[str]:
        return [
            problem
            for problem in (
                _parsing("accelerator", self.accelerator, parse_accelerator),
                _check_cpus(self.cpus),
                _parsing("memory", self.memory, parse_size),
                _parsing("timeout", self.timeout, parse_duration),
                _check_backend(self.backend),
                _check_retries(self.retries),
                _check_name("name", self.name),
                _check_name("experiment", self.experiment),
                _check_text("container_image", self.container_image),
                _check_text("cluster", self.cluster),
                _check_type("spot", self.spot, bool, "True or False"),
                *_check_env(self.env),
                *_check_secrets(self.secrets),
                *_check_volumes(self.volumes),
                *_check_packages(self.packages),
            )
            if problem
        ]

    def _unsupported(self) -> list[str]:
        refused = []
        where = f"backend {self.backend_name!r}"
        if self.container_image is not None:
            refused.append(
                f"container_image: {where} runs plain processes, not containers\n"
                "Use packages= for what the code needs, and leave container_image out."
            )
        if self.cluster is not None:
            refused.append(
                f"cluster: {where} is this one machine and has no clusters\nLeave cluster out."
            )
        if self.spot:
            refused.append(
                f"spot: {where} has no spot machines, nothing here is taken away\nLeave spot out."
            )
        return refused


def _unknown(name: str, known: Sequence[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, known, n=1)
    guess = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
    return f"there is no option {name!r}; {guess}"


def _parsing(name: str, value: Any, parse: Any) -> str | None:
    if value is None:
        return None
    try:
        parse(value)
    except ValueError as error:
        return f"{name}: {error}"
    return None


def _check_cpus(cpus: Any) -> str | None:
    if cpus is None:
        return None
    if isinstance(cpus, bool) or not isinstance(cpus, (int, float)) or not math.isfinite(cpus):
        return f"cpus: {cpus!r} is no number of CPUs; write 1, 4 or 0.5"
    if not 0.001 <= cpus <= 100_000:
        return f"cpus: {cpus:g} is out of range; ask for more than 0"
    return None


def _check_backend(backend: Any) -> str | None:
    if backend is None or backend in BACKENDS:
        return None
    import difflib

    near = difflib.get_close_matches(str(backend), BACKENDS, n=1)
    guess = f"did you mean {near[0]!r}?" if near else f"there is: {', '.join(map(repr, BACKENDS))}"
    return f"backend: there is no backend {backend!r}; {guess}"


def _check_retries(retries: Any) -> str | None:
    if isinstance(retries, bool) or not isinstance(retries, int) or not 0 <= retries <= 1_000_000:
        return f"retries: {retries!r} is no number of retries; write 0, 1, 2, ..."
    return None


def _check_name(option: str, name: Any) -> str | None:
    if name is None:
        return None
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        return f"{option}: {name!r} is no name; write a text on one line"
    if len(name) > 200:
        return f"{option}: a name has at most 200 characters, this one {len(name)}"
    return None


def _check_text(option: str, text: Any) -> str | None:
    return _check_type(option, text, str, "a text") if text is not None else None


def _check_type(option: str, value: Any, kind: type, wanted: str) -> str | None:
    return None if isinstance(value, kind) else f"{option}: {value!r} is not {wanted}"


def _check_env(env: Any) -> list[str]:
    if env is None:
        return []
    if not isinstance(env, Mapping):
        return [f"env: {env!r} is no mapping of names to texts"]
    problems = []
    for name, value in env.items():
        problems += _check_variable("env", name)
        if not isinstance(value, str):
            problems.append(f'env: {name} is {value!r}; a variable is a text: "{value}"')
        elif flaw := _flaw(value):
            problems.append(f"env: {name} {flaw}")
    return problems


def _check_secrets(secrets: Any) -> list[str]:
    if secrets is None:
        return []
    if isinstance(secrets, str):
        return [f'secrets: write a list: secrets=["{secrets}"]']
    if not isinstance(secrets, (Mapping, Sequence)):
        return ["secrets: write a list of names or a mapping of names to values"]
    problems = [problem for name in secrets for problem in _check_variable("secrets", name)]
    if isinstance(secrets, Mapping):
        problems += [
            f"secrets: the value of {name} {flaw}"
            for name, value in secrets.items()
            if (flaw := _flaw(value) if isinstance(value, str) else "is not a text")
        ]
    return problems


def _flaw(value: str) -> str:
    """What keeps a text from being the value of a variable."""
    if "\x00" in value:
        return "holds a NUL character"
    return "is no text: it holds half a character" if _SURROGATE.search(value) else ""


def _check_variable(option: str, name: Any) -> list[str]:
    if not isinstance(name, str) or not _ENV_NAME.fullmatch(name):
        return [f"{option}: {name!r} is no name of a variable"]
    if name.startswith(_RESERVED):
        return [f"{option}: {name} is set by Windlass itself"]
    return []


def _check_volumes(volumes: Any) -> list[str]:
    if volumes is None:
        return []
    if not isinstance(volumes, Mapping):
        return ['volumes: write a mapping of where to what: {"data": "/path/to/data"}']
    problems = []
    for target, source in volumes.items():
        parts = target.split("/") if isinstance(target, str) else []
        if not parts or os.path.isabs(target) or ".." in parts or not any(parts):
            problems.append(
                f"volumes: {target!r} must be a path relative to the working directory, like 'data'"
            )
        if not isinstance(source, (str, os.PathLike)):
            problems.append(f"volumes: {source!r} is no path")
        elif not _IS_TRIAL and not os.path.exists(os.path.expanduser(source)):
            problems.append(f"volumes: there is no {os.fspath(source)!r} on this machine")
    return problems


def _check_packages(packages: Any) -> list[str]:
    if packages is None or (isinstance(packages, str) and packages.endswith(".txt")):
        return []  # a file is read when the trial is made
    if isinstance(packages, str):
        return [f"packages: write a list, packages=[{packages!r}], or the path of a .txt file"]
    if not isinstance(packages, Sequence):
        return ['packages: write a list: packages=["scikit-learn", "pandas==2.2"]']
    from windlass.packaging.environments import requirement_problems

    return [f"packages: {problem}" for problem in requirement_problems(packages)]
