"""Builds an attempt's launch file, which contains the instructions for its supervisor."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from windlass.model.job import (
    Assignment,
    Executable,
    ExternalCall,
    FunctionCall,
    GeneratorCall,
    Job,
    JobSpec,
    ShellCall,
)
from windlass.model.status import ReplicaId
from windlass.runtimes import paths
from windlass.runtimes.local.attempt import EXTERNAL
from windlass.runtimes.local.ports import port_of
from windlass.worker.common.file_reads import exists
from windlass.worker.supervise.child_process import GIVEN
from windlass.worker.supervise.ports import LOOPBACK

_PATIENCE = 5.0


def build_launch(
    home: Path,
    job: Job,
    replica: ReplicaId,
    assignment: Assignment,
    *,
    home_id: str = "",
    has_devices: bool,
    is_here: bool = True,
) -> dict[str, Any]:
    """Build the contents of `launch.json`. The architecture page "Files on disk" lists the fields.

    If `is_here` is false, `home` is a path on a remote machine, so this function reads nothing
    there.
    """
    spec = job.spec
    role = spec.role(replica.role)
    code = role.code or spec.code
    private = paths.private_path(home, job.uid)
    membership = _membership(spec, replica, assignment)
    return {
        "key": {
            "uid": job.uid,
            "trial_id": job.trial_id,
            "role": replica.role,
            "index": replica.index,
            "attempt": replica.attempt,
            "home": home_id,
        },
        "trial": {"name": job.name, "experiment": job.experiment, "params": job.params},
        "executable": _executable(home, role.executable),
        "python": python_of(job),
        "work": str(paths.replica_dir(home, job.trial_id, replica) / "work"),
        "workdir": code.workdir or ".",
        "import_paths": list(code.import_paths),
        "extra_paths": list(spec.python.extra_paths),
        "copied_paths": [
            [copied.entry, copied.path] for package in code.packages for copied in package.imports
        ],
        "root": code.root,
        "tree": str(paths.blob_path(home, code.tree)) if code.tree else None,
        "blobs": str(home / "blobs"),
        "defaults": membership.defaults,
        "env": {
            **_device_env(assignment.devices, has_devices),
            **membership.for_framework,
            **role.env,
            **membership.for_all,
            **_carried(),
        },
        "devices": list(assignment.devices),
        "private": str(private) if not is_here or exists(private) else None,
        "secret_names": list(spec.secret_names),
        "volumes": [{"target": volume.target, "source": volume.source} for volume in spec.volumes],
        "environment": _environment(home, job, is_here=is_here),
        "deadline": None if assignment.seconds is None else max(assignment.seconds, 0.001),
        "hold": port_of(assignment.addresses.get(f"{replica.role}-{replica.index}", "")),
        "keeps_value": membership.rank == 0,
        "flaw": membership.flaw,
        "checkpoints": str(paths.checkpoints_dir(home, job.trial_id)),
        "begin": msgspec.to_builtins(spec.begin) if spec.begin else None,
        "together": spec.restarts_together,
        "server_file": str(paths.server_file(home)),
    }


def python_of(job: Job) -> str:
    """Return the interpreter that runs a job and for which the job's packages are installed."""
    return job.spec.python.executable or sys.executable


class _Membership(NamedTuple):
    """A replica's position among all replicas of its job, as environment variables."""

    rank: int | None  # None if the replica's role only serves the other roles
    for_all: dict[str, str]
    for_framework: dict[str, str] = {}
    defaults: dict[str, str] = {}  # set only if the author's environment does not set them
    flaw: str = ""  # why the framework set no variables


def _membership(spec: JobSpec, replica: ReplicaId, assignment: Assignment) -> _Membership:
    resources = spec.role(replica.role).resources
    if not spec.framework and sum(role.replicas for role in spec.roles) <= 1:
        at = assignment.addresses.get(f"{replica.role}-{replica.index}", LOOPBACK)
        threads = _thread_limit(resources.threads)
        bearings = _bearings(0, 1, {replica.role: [at]})
        return _Membership(0, {**bearings, **_names(threads)}, defaults=threads)
    from windlass.frameworks import build_cluster, find_framework  # most jobs need no framework

    cluster = build_cluster(spec, assignment.addresses, LOOPBACK)
    me = cluster.member(replica.role, replica.index)
    rank = cluster.rank(me)
    bearings = _bearings(rank, cluster.world_size, cluster.by_role())
    # If each of several replicas had a thread per core, they would compete.
    is_shared = len(cluster.members) > 1
    threads = _thread_limit(max(int(resources.cpus), 1) if is_shared else resources.threads)
    try:
        variables = _in_time(partial(find_framework(spec.framework).variables, cluster, me))
    except (Exception, SystemExit) as error:  # noqa: BLE001 -- any code may run here
        reason = f"{type(error).__name__}: {error}"
        flaw = f"the framework {spec.framework} set no environment: {reason}"
        return _Membership(rank, bearings, flaw=flaw)
    return _Membership(rank, {**bearings, **_names({**variables, **threads})}, variables, threads)


def _in_time(ask: Callable[[], dict[str, str]]) -> dict[str, str]:
    """Call a framework's code with a time limit, because few threads serve all jobs."""
    answer: Future[dict[str, str]] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:  # noqa: BLE001 -- the caller raises it
            answer.set_exception(error)

    threading.Thread(target=run, name="windlass-framework", daemon=True).start()
    if not wait([answer], timeout=_PATIENCE).done:
        raise TimeoutError(f"it did not answer within {_PATIENCE:g} seconds")
    return answer.result()


def _thread_limit(threads: int) -> dict[str, str]:
    """Return the variables that limit the threads of numeric libraries.

    NumPy, SciPy and PyTorch read the first variable, TensorFlow reads the second.
    """
    names = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
    return dict.fromkeys(names, str(threads)) if threads else {}


def _names(variables: dict[str, str]) -> dict[str, str]:
    """Return a variable that lists the variables set only for this trial.

    Jobs that the trial submits do not inherit the listed variables.
    """
    return {GIVEN: ",".join(variables)} if variables else {}


def _bearings(rank: int | None, world_size: int, hosts: dict[str, list[str]]) -> dict[str, str]:
    named = {} if rank is None else {"WINDLASS_RANK": str(rank)}
    return {
        **named,
        "WINDLASS_WORLD_SIZE": str(world_size),
        "WINDLASS_HOSTS": msgspec.json.encode(hosts).decode(),
    }


def _executable(home: Path, executable: Executable) -> dict[str, Any]:
    if isinstance(executable, FunctionCall):
        return {
            "type": "function",
            "payload": str(paths.blob_path(home, executable.payload)),
            "qualname": executable.qualname,
            "changes": str(paths.blob_path(home, executable.changes))
            if executable.changes
            else None,
            "main": msgspec.to_builtins(executable.main) if executable.main is not None else None,
        }
    if isinstance(executable, GeneratorCall):
        raise TypeError("a generator has no process to start")
    if isinstance(executable, ExternalCall):
        return {"type": EXTERNAL, "argv": list(executable.argv)}
    if isinstance(executable, ShellCall):
        return {
            "type": "shell",
            "argv": list(executable.argv),
            "has_terminal": executable.has_terminal,
            "rows": executable.rows,
            "columns": executable.columns,
        }
    return {"type": "process", "argv": list(executable.argv)}


def _environment(home: Path, job: Job, *, is_here: bool) -> dict[str, str] | None:
    lock = job.spec.python.lock
    if lock is None:
        return None
    # Compiled packages fit only one interpreter, so each interpreter has its own environment.
    digest = hashlib.sha256(f"{lock}\0{python_of(job)}".encode()).hexdigest()[:32]
    return {
        "lock": str(paths.blob_path(home, lock)),
        "target": str(paths.environment_dir(home, digest)),
        "uv": _own_uv() if is_here else "uv",
    }


def _own_uv() -> str:
    import uv

    return os.fsdecode(uv.find_uv_bin())


def _device_env(devices: tuple[int, ...], has_devices: bool) -> dict[str, str]:
    """Return the variables that limit a replica to its assigned accelerators or to none."""
    if not devices and not has_devices:
        return {}
    visible = ",".join(map(str, devices))
    return {"CUDA_VISIBLE_DEVICES": visible, "NVIDIA_VISIBLE_DEVICES": visible or "void"}


@functools.cache
def _carried() -> dict[str, str]:
    """Return the variables that make our copy of cloudpickle available to other interpreters."""
    cloudpickle = importlib.util.find_spec("cloudpickle")
    if cloudpickle is None or cloudpickle.origin is None:
        return {}
    return {"WINDLASS_CLOUDPICKLE": os.path.dirname(os.path.dirname(cloudpickle.origin))}
