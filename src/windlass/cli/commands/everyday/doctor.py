"""Implements `windlass doctor`, which checks the installation and suggests fixes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.options.parameters import json_option
from windlass.cli.output.findings import Finding, print_findings
from windlass.home import Home

if TYPE_CHECKING:
    from windlass.cli.options.server_probe import ServerProbe

_MOST_NAMED = 10  # list at most this many damaged items in a finding
_LITTLE_SPACE = 1_000_000_000
_OLDEST_PYTHON = (3, 10)


@click.command(
    short_help="Check the installation and suggest fixes.",
    epilog=examples(
        "windlass doctor",
        "windlass doctor --json",
        "windlass doctor --contents",
    ),
)
@click.option(
    "--contents", is_flag=True,
    help="Also verify all stored contents, and set damaged contents aside.",
)  # fmt: skip
@json_option
def command(contents: bool, as_json: bool) -> int:
    """Check the installation and suggest fixes. The exit code is 1 if something needs fixing.

    --contents also reads all stored code, values and checkpoints, and reports any damage.
    """
    return print_findings(examine(contents=contents), as_json=as_json)


def examine(*, contents: bool = False) -> Iterator[Finding]:
    """Run all checks and yield their findings.

    The checks start and change nothing, except that `contents` sets damaged contents aside.
    """
    from windlass.cli.options.cluster_findings import summarize_cluster
    from windlass.cli.options.server_probe import probe_server
    from windlass.model.copied_home import describe_copy
    from windlass.model.errors import WindlassError

    yield _python()
    try:
        home = Home.find()
    except WindlassError as error:
        yield Finding("home", "error", error.message, error.hint or "")
        return
    yield from _home(home)
    yield from _file_system(home)
    yield _space(home)
    if contents:
        yield _contents(home)
    try:
        seen = probe_server(home)
    except WindlassError as error:
        yield Finding("server", "error", error.message, error.hint or "")
        return
    if seen.info and seen.info.copy_of:
        yield Finding("copy", "warning", *describe_copy(str(home.path), seen.info.copy_of))
    yield _named_server() or _server(seen)
    yield from _start(home, seen)
    yield _machine(seen)
    yield _accelerators(seen)
    yield _uv()
    yield _git()
    yield from summarize_cluster(home)


def _python() -> Finding:
    from windlass.version import __version__

    version = ".".join(map(str, sys.version_info[:3]))
    text = f"{version} ({sys.executable}), Windlass {__version__}"
    if sys.version_info[:2] < _OLDEST_PYTHON:
        return Finding("Python", "error", text, "Install Python 3.10 or newer.")
    return Finding("Python", "ok", text)


def _home(home: Home) -> Iterator[Finding]:
    path = home.path
    if not path.exists():
        parent = _existing(home)
        if os.access(parent, os.W_OK):
            yield Finding("home", "ok", f"{path} (created when it is first needed)")
        else:
            yield _unusable(path, f"it does not exist, and {parent} cannot be written to")
        return
    if not path.is_dir():
        yield _unusable(path, "it is not a directory")
        return
    if path.stat().st_uid != os.getuid():
        yield _unusable(path, "it belongs to another user")
        return
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        yield _unusable(path, "it cannot be written to")
        return
    loose = [
        str(file)
        for file in (path, home.token, home.server_file, home.database, home.private)
        if file.exists() and file.stat().st_mode & 0o077
    ]
    if loose:
        remedy = f"Make it private: chmod go-rwx {' '.join(loose)}"
        yield Finding("home", "warning", f"{path}: other users can read its files", remedy)
        return
    yield Finding("home", "ok", f"{path}, only yours")


def _unusable(path: os.PathLike[str], why: str) -> Finding:
    return Finding(
        "home",
        "error",
        f"{path} cannot be used: {why}",
        "Set WINDLASS_HOME to a directory of yours.",
    )


def _file_system(home: Home) -> Iterator[Finding]:
    from windlass.worker.common.file_system import file_system_type, is_local

    kind = file_system_type(_existing(home))
    if not is_local(kind):
        yield Finding(
            "file system", "warning",
            f"the home is on {kind}, which other machines may share: the database uses one "
            "connection and is slower",
            "Set WINDLASS_HOME to a directory on a local disk, or use this home on one machine "
            "at a time.",
        )  # fmt: skip


def _existing(home: Home) -> Path:
    """Return the home, or its closest parent folder that exists."""
    return next(folder for folder in (home.path, *home.path.parents) if folder.exists())


def _space(home: Home) -> Finding:
    from windlass.model.text.quantities import format_size

    existing = _existing(home)
    free = shutil.disk_usage(existing).free
    text = f"{format_size(free)} free on the disk of the home directory"
    files = os.statvfs(existing)
    if files.f_files and not files.f_favail:  # not every file system limits the number of files
        text += ", but the file system has no free inodes"
        free = 0
    if free < _LITTLE_SPACE:
        remedy = (
            "Free some space, or set WINDLASS_HOME to a directory on a larger disk.\n"
            f"To see the largest folders: du -sh {home.path}/*"
        )
        return Finding("disk", "warning", text, remedy)
    return Finding("disk", "ok", text)


def _contents(home: Home) -> Finding:
    from windlass.cli.output.text import counted
    from windlass.model.text.quantities import format_size
    from windlass.worker.blobs.verified_reads import DAMAGED, verify_all

    damaged, number, total = [], 0, 0
    for digest, size, is_intact in verify_all(str(home.blobs)):
        number += 1
        total += size
        if not is_intact:
            damaged.append(f"{digest} ({format_size(size)})")
    if not damaged:
        text = f"{counted(number, 'content')} verified, {format_size(total)}"
        return Finding("contents", "ok", text)
    return Finding(
        "contents", "error",
        f"{len(damaged)} of {counted(number, 'content')} were damaged and set aside: "
        f"{', '.join(damaged[:_MOST_NAMED])}{', ...' if len(damaged) > _MOST_NAMED else ''}",
        "Code and calls are sent again with the next submission. Values and checkpoints need a\n"
        f"copy: put it into {home.blobs} in place of {DAMAGED}... Check the disk and the memory of "
        "this machine.",
    )  # fmt: skip


def _named_server() -> Finding | None:
    """Check the server set in WINDLASS_SERVER. Return None if the variable is not set."""
    from windlass.cli.options.server_probe import fetch_server_info
    from windlass.client.connection.discovery import named_endpoint
    from windlass.model.errors import WindlassError

    try:
        named = named_endpoint()
        if named is None:
            return None
        info = fetch_server_info(named)
    except WindlassError as error:
        return Finding("server", "error", error.message, error.hint or "")
    return Finding("server", "ok", f"{named.url} answers, version {info.version}")


def _server(seen: ServerProbe) -> Finding:
    from windlass.cli.output.text import counted

    if seen.described is None:
        return Finding("server", "ok", "not running; the first command that needs it starts it")
    if not seen.is_running:
        return Finding(
            "server", "warning", f"it stopped unexpectedly (it was pid {seen.pid})",
            "The next command starts it again. To see why it stopped: windlass server logs",
        )  # fmt: skip
    if seen.info is None:
        problem, _, hint = seen.problem.partition("\n")
        return Finding(
            "server", "error", f"pid {seen.pid} runs but does not answer: {problem}",
            hint.replace("\n  ", "\n").strip() or "Restart it: windlass server stop",
        )  # fmt: skip
    running = counted(seen.info.trials_running, "trial")
    text = f"{seen.info.url} answers (pid {seen.info.pid}, version {seen.info.version})"
    if seen.info.problem:
        return Finding(
            "server", "warning", f"{text}, but {seen.info.problem}",
            "Restart it with this installation (running trials continue): windlass server stop",
        )  # fmt: skip
    return Finding("server", "ok", f"{text}, {running} running")


def _start(home: Home, seen: ServerProbe) -> Iterator[Finding]:
    """Report a lock that keeps clients from starting this home's server."""
    from windlass.worker.common.atomic_files import is_locked
    from windlass.worker.common.lock_holder import describe_process, find_holder

    locks = {home.start_lock: "No client can start the server"}
    if not seen.is_running:
        locks[home.server_lock] = "A server is starting, or is stuck"
    for lock, problem in locks.items():
        if not is_locked(str(lock)):
            continue
        pid = find_holder(lock)
        how = f"kill {pid}" if pid else f"lsof {lock}"
        yield Finding(
            "start", "warning", f"{problem}: {describe_process(pid)} holds {lock}",
            f"If that process does not continue, end it: {how}",
        )  # fmt: skip


def _machine(seen: ServerProbe) -> Finding:
    import psutil

    from windlass.model.text.quantities import format_size

    if seen.info is not None:
        has = seen.info.capacity
        return Finding("machine", "ok", f"{has.cpus:g} CPUs, {format_size(has.memory)} of memory")
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = format_size(psutil.virtual_memory().total)
    return Finding("machine", "ok", f"{cpus} CPUs, {memory} of memory")


def _accelerators(seen: ServerProbe) -> Finding:
    if seen.info is not None and seen.info.capacity.devices:
        names = [device.title or device.kind for device in seen.info.capacity.devices]
        return Finding("accelerators", "ok", ", ".join(names))
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return Finding("accelerators", "ok", "none (nvidia-smi is not installed)")
    listed = _output_of([tool, "-L"])
    if listed is None:
        return Finding(
            "accelerators", "warning", "nvidia-smi exists but fails",
            "Run nvidia-smi to see the error. You may need to reinstall the driver.",
        )  # fmt: skip
    names = [line.partition(":")[2].partition("(")[0].strip() for line in listed.splitlines()]
    text = ", ".join(name for name in names if name)
    if seen.info is not None:
        remedy = "Restart the server to add them: windlass server stop"
        return Finding("accelerators", "warning", f"{text}; the server does not list them", remedy)
    return Finding("accelerators", "ok", text or "none here")


def _uv() -> Finding:
    from windlass.model.errors import WindlassError
    from windlass.packaging.environments import find_uv

    try:
        uv = find_uv()
    except WindlassError as error:
        return Finding("uv", "warning", error.message, error.hint or "")
    version = _output_of([uv, "--version"])
    if version is None:
        return Finding(
            "uv", "warning", f"{uv} does not work; packages= needs it",
            "Install it again: pip install --force-reinstall uv",
        )  # fmt: skip
    return Finding("uv", "ok", f"{version.strip()} ({uv})")


def _git() -> Finding:
    version = _output_of(["git", "--version"])
    if version is None:
        remedy = "Install git, so that the commit of your code is recorded."
        return Finding("git", "warning", "git is not installed", remedy)
    return Finding("git", "ok", version.strip())


def _output_of(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
