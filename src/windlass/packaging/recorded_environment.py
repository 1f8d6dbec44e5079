"""Compares a trial's recorded environment with the current one, and rebuilds it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from windlass.model.errors import InvalidArgument
from windlass.packaging.provenance import installed_packages
from windlass.worker.supervise.package_list import ELSEWHERE

_PATIENCE = 60.0
_PINNED = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*(==|@)\s*([^\s;#\\]+)")
_OURS = "windlass"  # a trial always uses the Windlass that starts it
_MOST_SHOWN = 5


class Interpreter(NamedTuple):
    """An interpreter and its installed packages."""

    executable: str
    version: str  # "3.11.7"
    packages: bytes

    @property
    def minor(self) -> str:
        """The version without its last number, such as `3.11`.

        Only an interpreter with the same minor version can unpickle reliably.
        """
        return ".".join(self.version.split(".")[:2])


class Unusable(Exception):
    """Raised if an interpreter cannot be used.

    The message is a predicate such as "no longer exists".
    """


class Difference(NamedTuple):
    """The differences between two environments. `packages` has one short text per package."""

    version: str
    packages: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.version or self.packages)

    def __str__(self) -> str:
        parts = [f"Python {self.version}"] if self.version else []
        if self.packages:
            number = len(self.packages)
            named = ", ".join(self.packages[:_MOST_SHOWN])
            more = f" and {number - _MOST_SHOWN} more" if number > _MOST_SHOWN else ""
            parts.append(f"{number} package{'' if number == 1 else 's'}: {named}{more}")
        return "; ".join(parts)


def look_at(executable: str, cache_dir: Path) -> Interpreter:
    """Return an interpreter's version and packages.

    Raise `Unusable` if the interpreter is missing or does not run.
    """
    if is_this_one(executable):
        return Interpreter(executable, sys.version.split()[0], installed_packages(cache_dir))
    if not os.access(executable, os.X_OK) or os.path.isdir(executable):
        raise Unusable("no longer exists")
    import json
    import subprocess

    from windlass.worker.supervise import package_list

    program = Path(package_list.__file__).read_text(encoding="utf-8")
    try:
        output = subprocess.run(
            [executable, "-c", program],
            capture_output=True, timeout=_PATIENCE, check=True, cwd="/",
        ).stdout  # fmt: skip
        version, lines = json.loads(output)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise Unusable(f"no longer runs ({type(error).__name__})") from error
    listed = "".join(f"{line}\n" for line in lines)
    return Interpreter(executable, version, listed.encode("utf-8", "replace"))


def is_this_one(executable: str) -> bool:
    """Return True if a path is the interpreter that runs this process.

    An interpreter in a different virtual environment does not count.
    """
    return os.path.dirname(executable) == os.path.dirname(sys.executable) and (
        os.path.realpath(executable) == os.path.realpath(sys.executable)
    )


def difference(before: tuple[str, bytes], now: tuple[str, bytes], lock: bytes = b"") -> Difference:
    r"""Compare two environments by their Python versions and packages.

    An environment is a Python version and a list of packages. Packages in `lock` count as equal.

    >>> str(difference(("3.11.4", b"a==1\nb==1\n"), ("3.11.7", b"a==2\nc==1\n")))
    'Python 3.11.4 -> 3.11.7; 3 packages: a 1 -> 2, b 1 is gone, c 1 is new'
    """
    old, new = read_pins(before[1], lock), read_pins(now[1], lock)
    packages = []
    for name in sorted({*old, *new}):
        then, there = old.get(name), new.get(name)
        if then is None and there is not None:
            packages.append(f"{name} {there.version} is new")
        elif there is None and then is not None:
            packages.append(f"{name} {then.version} is gone")
        elif then is not None and there is not None and then.version != there.version:
            packages.append(f"{name} {then.version} -> {there.version}")
    version = "" if before[0] == now[0] else f"{before[0]} -> {now[0]}"
    return Difference(version if before[0] else "", tuple(packages))


class Pin(NamedTuple):
    """One package in a list of installed packages."""

    version: str  # or a URL, if the lock contains one
    line: str
    is_from_index: bool


def read_pins(*lists: bytes) -> dict[str, Pin]:
    r"""Parse lists of packages. If a package is in several lists, the last list wins.

    >>> pins = read_pins(b"Pkg_a==1.0\n", b"pkg-a==2.0\nmine==0.1  # not from an index\n")
    >>> [(name, pin.version, pin.is_from_index) for name, pin in pins.items()]
    [('pkg-a', '2.0', True), ('mine', '0.1', False)]
    """
    pins: dict[str, Pin] = {}
    for line in b"\n".join(lists).decode("utf-8", "replace").splitlines():
        if match := _PINNED.match(line):
            name = re.sub(r"[-_.]+", "-", match[1]).lower()  # normalized as in package indexes
            pins[name] = Pin(match[3], line.strip(), not line.endswith(ELSEWHERE))
    return pins


class Rebuilt(NamedTuple):
    """A lock that rebuilds a recorded environment, and the packages in the result."""

    lock: str  # the text of a requirements file
    packages: bytes  # all packages in the rebuilt environment
    left_out: tuple[str, ...]  # packages that no reachable index has


def rebuild(recorded: bytes, lock: bytes, base: Interpreter) -> Rebuilt:
    """Create a lock for rebuilding a recorded environment with the interpreter `base`.

    `recorded` lists the packages. `lock` is the trial's own lock, which takes precedence. The new
    lock leaves out Windlass and packages that did not come from a package index, because the index
    may have a different package with the same name.
    """
    now = read_pins(base.packages)
    wanted = {name: pin for name, pin in read_pins(recorded, lock).items() if name != _OURS}
    local = [name for name, pin in now.items() if not pin.is_from_index]
    indexed = {name: pin for name, pin in wanted.items() if pin.is_from_index and name not in local}
    lines = {pin.line: name for name, pin in indexed.items()}
    missing = [lines[line] for line in _not_to_be_had(list(lines), base.executable)]
    kept = {name: pin for name, pin in indexed.items() if name not in missing}
    there = {name: pin.line for name, pin in {**now, **kept}.items()}
    left_out = [f"{name} {pin.version}" for name, pin in wanted.items() if name not in kept]
    return Rebuilt(
        lock="".join(f"{kept[name].line}\n" for name in sorted(kept)),
        packages="".join(f"{there[name]}\n" for name in sorted(there)).encode(),
        left_out=tuple(sorted(left_out)),
    )


def _not_to_be_had(lines: Sequence[str], executable: str) -> list[str]:
    """Return the requirements that the package index lacks.

    Because uv reports only the first missing requirement, this function splits the list in halves
    and checks each half.
    """
    from windlass.packaging.environments import compile_requirements

    if not lines:
        return []
    try:
        compile_requirements(lines, executable, "--no-deps")
    except InvalidArgument:
        if len(lines) == 1:
            return list(lines)
        middle = len(lines) // 2
        return [
            *_not_to_be_had(lines[:middle], executable),
            *_not_to_be_had(lines[middle:], executable),
        ]
    return []
