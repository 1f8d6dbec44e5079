"""Finds job options that this machine does not support, before the job is stored."""

from __future__ import annotations

import functools
import os
import posixpath
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence

from windlass.model.job import Code, JobSpec, Python, Volume

# names in a replica's folder, see `is_own_name` of the worker
_NAMES_IN_USE = re.compile(r"(outputs|work|work\.lock|[0-9]+)(/|\Z)")


def find_unsupported(spec: JobSpec) -> list[str]:
    """Return why a job cannot run on this machine, one sentence per reason."""
    problems = []
    if not spec.capabilities.runs_on_server:
        problems.append(f"backend is {spec.backend!r}; this machine runs 'local' jobs only.")
    problems += code_problems(spec)
    problems += [
        f"the import path {path!r} must be absolute."
        for path in spec.python.extra_paths
        if not os.path.isabs(path)
    ]
    workdirs = {(role.code or spec.code).workdir for role in spec.roles}
    for volume in spec.volumes:
        problems += _volume_problems(volume, sorted(workdirs))
    problems += _python_problems(spec.python)
    return problems


def code_problems(spec: JobSpec) -> list[str]:
    """Return a problem for each path in a job's code that leads out of the snapshot.

    Such a path is invalid for every backend.
    """
    return [
        f"{path!r} is not inside the folder of the code."
        for code in (spec.code, *(role.code for role in spec.roles if role.code))
        for path in (code.workdir, *code.import_paths, *_copied_paths(code))
        if not _is_inside(path)
    ]


def _copied_paths(code: Code) -> Iterator[str]:
    for package in code.packages:
        yield package.folder
        yield from (copied.path for copied in package.imports)


def _is_inside(path: str) -> bool:
    """Return True if a path stays inside the folder that it is relative to.

    >>> _is_inside("src/pkg"), _is_inside("."), _is_inside("a/../../b"), _is_inside("/etc")
    (True, True, False, False)
    """
    normal = posixpath.normpath(path)
    return not normal.startswith("/") and normal.split("/")[0] != ".."


def _volume_problems(volume: Volume, workdirs: Sequence[str]) -> list[str]:
    problems = []
    target = posixpath.normpath(volume.target)
    if target.startswith("/"):
        problems.append(
            f"volume {volume.target!r} is absolute; on this machine a volume is a path in "
            f"the working directory: write {volume.target.strip('/').rpartition('/')[2]!r}."
        )
    elif target == "." or not all(_is_in_reach(workdir, target) for workdir in workdirs):
        problems.append(
            f"volume {volume.target!r} is not in the project's folder or directly above it, or has "
            "a name that is in use there."
        )
    if not os.path.isabs(volume.source):
        problems.append(f"volume source {volume.source!r} must be an absolute path.")
    elif not os.path.exists(volume.source):
        problems.append(f"volume source {volume.source} does not exist.")
    return problems


def _is_in_reach(workdir: str, target: str) -> bool:
    """Return True if a volume is in the project's folder or in the folder that contains it.

    >>> _is_in_reach("", "../data"), _is_in_reach("src", "../../data"), _is_in_reach("", "../../a")
    (True, True, False)
    >>> _is_in_reach("src", ".."), _is_in_reach("", "../outputs")
    (False, False)
    """
    path = posixpath.normpath(posixpath.join(workdir, target))
    above = path.removeprefix("../")
    is_free = above == path or not _NAMES_IN_USE.match(above)
    return path != "." and _is_inside(above) and is_free


def _python_problems(python: Python) -> list[str]:
    if not python.executable:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        if python.version and python.version != version:
            return [f"the job needs Python {python.version}; this server has {version}."]
        return []
    if not os.access(python.executable, os.X_OK) or os.path.isdir(python.executable):
        return [f"the interpreter {python.executable} does not exist on this machine."]
    if not python.version:
        return []
    try:
        stat = os.stat(python.executable)
        version = _python_version(python.executable, stat.st_mtime_ns)
    except (OSError, subprocess.SubprocessError) as error:
        return [f"the interpreter {python.executable} does not run: {error}."]
    if version != python.version:
        return [f"the interpreter {python.executable} is {version}, not {python.version}."]
    return []


@functools.lru_cache(maxsize=64)
def _python_version(executable: str, _modified: int) -> str:
    if executable == sys.executable:
        return f"{sys.version_info.major}.{sys.version_info.minor}"
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    answer = subprocess.run(
        [executable, "-I", "-S", "-c", code],
        capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    return answer.stdout.strip()
