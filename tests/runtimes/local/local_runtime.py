"""A home with a local runtime, and jobs for it."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import psutil

from windlass.model.job import (
    Assignment,
    Code,
    FunctionCall,
    Job,
    JobSpec,
    ProcessCall,
    Python,
    Role,
)
from windlass.model.status import Replica, ReplicaId
from windlass.runtimes import paths
from windlass.runtimes.local.attempt import Attempt
from windlass.runtimes.local.runtime import LocalRuntime
from windlass.worker.logs.segment import read_parts
from windlass.worker.logs.segment_reader import join_lines

PATIENCE = 60.0  # an upper limit that only a failure reaches
FIRST = ReplicaId("main", 0, 1)


class World:
    """One home and its runtime, with helpers for both."""

    def __init__(self, home: Path, **options: Any) -> None:
        self.home = home
        self.changes: list[str] = []
        self.grown: list[int] = []
        self._options = options
        self._heard = threading.Condition()
        self._next_trial = 1
        self.addresses: dict[str, dict[str, str]] = {}  # of jobs, like a store
        home.mkdir(parents=True, exist_ok=True)
        self.runtime = self.restart()

    def restart(self) -> LocalRuntime:
        """Start a new runtime of the same home, as after a restart of the server."""
        self.runtime = LocalRuntime(self.home, **self._options)
        self.runtime.watch(lambda uid: self._hear(self.changes, uid))
        self.runtime.watch_trials(lambda trial_id: self._hear(self.grown, trial_id))
        server = {"nudge": self.runtime.nudges.path}
        temporary = self.home / "server.json.new"
        temporary.write_text(json.dumps(server))
        temporary.replace(self.home / "server.json")
        return self.runtime

    def close(self) -> None:
        """End everything that runs, then the runtime."""
        for path in self.home.glob("trials/*/*/*/launch.json"):
            key = json.loads(path.read_text())["key"]
            replica = ReplicaId(key["role"], key["index"], key["attempt"])
            Attempt(key["uid"], replica, path.parent).stop(0)
        self.runtime.close()

    def blob(self, content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        path = paths.blob_path(self.home, digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return digest

    def tree(self, files: dict[str, str]) -> str:
        """A snapshot of these files."""
        listed = []
        for name, text in sorted(files.items()):
            content = textwrap.dedent(text).lstrip("\n").encode()
            listed.append([name, "f", self.blob(content), len(content)])
        return self.blob(json.dumps({"files": listed, "version": 1}).encode())

    def job(self, executable: FunctionCall | ProcessCall, **spec: Any) -> Job:
        """A job of one role, with one replica by default. Other arguments are as in real jobs."""
        trial_id = self._next_trial
        self._next_trial += 1
        of_role = {
            name: spec.pop(name)
            for name in ("name", "replicas", "env", "service", "resources")
            if name in spec
        }
        if files := spec.pop("files", None):
            code = spec.pop("code", Code(import_paths=(".",), root="/home/ada/project"))
            spec["code"] = Code(
                tree=self.tree(files),
                root=code.root,
                workdir=code.workdir,
                import_paths=code.import_paths,
            )
        uid = f"uid{trial_id}-{os.getpid()}"
        if private := spec.pop("private", None):
            path = paths.private_path(self.home, uid)
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(private))
        roles = spec.pop("roles", None) or (Role(executable=executable, **of_role),)
        return Job(uid=uid, trial_id=trial_id, spec=JobSpec(roles=roles, **spec))

    def call(self, function: Any, *args: Any, **spec: Any) -> Job:
        """A job that calls a function.

        A pair of strings names a function of the job's own modules.
        """
        reference = ("ref", *function) if isinstance(function, tuple) else ("value", function)
        payload = {
            "version": 1,
            "function": reference,
            "args": args,
            "kwargs": spec.pop("kwargs", {}),
        }
        digest = self.blob(cloudpickle.dumps(payload))
        return self.job(FunctionCall(payload=digest, qualname="f"), **spec)

    def script(self, text: str, **spec: Any) -> Job:
        """A job that runs a Python script."""
        return self.command("python", "-c", textwrap.dedent(text), **spec)

    def command(self, *argv: str, **spec: Any) -> Job:
        return self.job(ProcessCall(argv=argv), **spec)

    def start(self, job: Job, replica: ReplicaId = FIRST) -> Job:
        """Start an attempt as the controller does, with the first assigned addresses."""
        addresses = self.runtime.addresses(job, self.addresses.get(job.uid, {}))
        self.addresses[job.uid] = addresses
        assignment = Assignment(addresses=addresses, seconds=job.spec.active_deadline)
        self.runtime.create(job, replica, assignment)
        return job

    def start_all(self, job: Job, attempt: int = 1) -> list[ReplicaId]:
        """Start an attempt of every replica."""
        replicas = [
            ReplicaId(role.name, index, attempt)
            for role in job.spec.roles
            for index in range(role.replicas)
        ]
        for replica in replicas:
            self.start(job, replica)
        return replicas

    def run(self, job: Job, replica: ReplicaId = FIRST) -> Replica:
        """Run a job to its end."""
        self.start(job, replica)
        return self.end_of(job, replica)

    def end_of(self, job: Job, replica: ReplicaId = FIRST) -> Replica:
        return self.wait(job, lambda seen: seen.phase.is_final, "it ended", replica)

    def wait(
        self,
        job: Job,
        holds: Callable[[Replica], bool],
        what: str,
        replica: ReplicaId = FIRST,
    ) -> Replica:
        observed: list[Replica] = []

        def look() -> bool:
            observed[:] = [
                candidate for candidate in self.runtime.list(job) if candidate.id == replica
            ]
            return bool(observed) and holds(observed[0])

        self.eventually(look, what)
        return observed[0]

    def eventually(self, holds: Callable[[], bool], what: str) -> None:
        """Check a condition at each notification, and sometimes without one."""
        deadline = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < deadline, f"never happened: {what}"
            with self._heard:
                self._heard.wait(0.05)

    def path(self, job: Job, name: str = "", replica: ReplicaId = FIRST) -> Path:
        """A file of an attempt."""
        return paths.attempt_dir(self.home, job.trial_id, replica) / name

    def json(self, job: Job, name: str, replica: ReplicaId = FIRST) -> Any:
        return json.loads(self.path(job, name, replica).read_text())

    def value(self, job: Job, replica: ReplicaId = FIRST) -> Any:
        return cloudpickle.loads(self.path(job, paths.RESULT, replica).read_bytes())

    def lines(self, job: Job, replica: ReplicaId = FIRST) -> list[tuple[str, str]]:
        """The log lines of an attempt, as its program wrote them."""
        path = self.path(job, paths.LOG, replica)
        data = path.read_bytes() if path.exists() else b""
        return [
            (line.stream, line.text.decode(errors="replace"))
            for line in join_lines(read_parts(data))
        ]

    def wait_for_text(self, job: Job, text: str, replica: ReplicaId = FIRST) -> None:
        """Wait until the attempt has written that line."""
        self.eventually(
            lambda: any(text in line for _, line in self.lines(job, replica)), f"it wrote {text!r}"
        )

    def _hear(self, heard: list[Any], what: Any) -> None:
        with self._heard:
            heard.append(what)
            self._heard.notify_all()


def is_running(pid: int) -> bool:
    """Return whether a process runs. A zombie does not count."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def own_python() -> Python:
    return Python(
        executable=sys.executable, version=f"{sys.version_info.major}.{sys.version_info.minor}"
    )
