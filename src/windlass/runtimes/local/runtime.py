"""The local runtime, which runs replicas as processes on this machine.

Each replica has a supervisor, which runs in its own session and outlives the server.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from windlass.machine.unsupported import find_unsupported
from windlass.model.job import Assignment, Job, JobSpec
from windlass.model.status import Phase, Replica, ReplicaId
from windlass.runtimes import paths
from windlass.runtimes.base import AttemptProcess
from windlass.runtimes.launch_file import build_launch
from windlass.runtimes.local.attempt import EXTERNAL, Attempt
from windlass.runtimes.local.installation import supervisor_command
from windlass.runtimes.local.nudge_listener import NudgeListener
from windlass.runtimes.local.ports import Ports
from windlass.runtimes.local.warm_launchers import Launchers
from windlass.worker.common.atomic_files import write_json
from windlass.worker.common.file_reads import may_pass, read_json, retried
from windlass.worker.common.process_identity import is_alive, process_identity
from windlass.worker.common.process_tree import DETACHED

_START_PATIENCE = 20.0  # seconds until an attempt whose supervisor cannot start counts as failed


class LocalRuntime:
    """Runs replicas as processes on this machine, and finds them by their files under `home`.

    All important state is on disk. After a crash, a new instance finds the same replicas once
    `adopt` has been called.
    """

    def __init__(
        self,
        home: Path,
        home_id: str = "",
        *,
        has_devices: bool = False,
        launchers: Launchers | None = None,
        write_blob: Callable[[str], None] = lambda _digest: None,
        start_patience: float = _START_PATIENCE,
    ) -> None:
        """Set up the runtime. `write_blob` writes a blob's file if the blob has no file yet."""
        self._home = home.absolute()
        self._home_id = home_id
        self._has_devices = has_devices
        self._write_blob = write_blob
        self.nudges = NudgeListener(self._home)
        self._lock = threading.Lock()
        self._attempts_by_job: dict[
            str, dict[Path, Attempt]
        ] = {}  # by job uid and path; kept because an attempt caches its exit record
        self._supervisors: dict[Path, _Started] = {}  # the supervisors that this process started
        self._start_patience = start_patience
        self._failing_since: dict[Path, float] = {}  # when the start of each attempt first failed
        self._awaited: set[Path] = set()  # external attempts whose end we wait for
        self._ports = Ports()
        self._launchers = launchers or Launchers()
        self.nudges.on_change(lambda _uid: self._reap())

    def validate(self, spec: JobSpec) -> list[str]:
        """Return the reasons why this machine cannot run a job, one sentence per reason."""
        return find_unsupported(spec)

    def watch(self, callback: Callable[[str], None]) -> None:
        """Call `callback` with the uid of each job whose replicas may have changed."""
        self.nudges.on_change(callback)

    def watch_trials(self, callback: Callable[[int], None]) -> None:
        """Call `callback` with the id of each trial whose log may have grown."""
        self.nudges.on_log(callback)

    def addresses(self, job: Job, assigned: Mapping[str, str]) -> dict[str, str]:
        """Return the addresses of a job's replicas.

        A job's only replica needs no port, unless the job has a framework.
        """
        roles = job.spec.roles
        if not job.spec.framework and sum(role.replicas for role in roles) <= 1:
            return dict(assigned)
        names = [f"{role.name}-{index}" for role in roles for index in range(role.replicas)]
        return self._ports.addresses(job.uid, names, assigned)

    def create(self, job: Job, replica: ReplicaId, assignment: Assignment) -> None:
        """Start a replica's attempt unless it was already started."""
        attempt = self._attempt(job, replica)
        if not attempt.is_of(job.uid):
            self._set_aside(job, replica)
        if attempt.has_ended or self._is_starting(attempt.path) or attempt.is_alive:
            return
        if attempt.was_begun:
            return  # the supervisor died, and `list` reports that
        if assignment.addresses:
            self._ports.take_up(job.uid, assignment.addresses)
        attempt.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        launch = build_launch(
            self._home,
            job,
            replica,
            assignment,
            home_id=self._home_id,
            has_devices=self._has_devices,
        )
        write_json(str(attempt.path / paths.LAUNCH), launch)
        if launch["executable"]["type"] == EXTERNAL:
            return  # the process already runs and writes its own state
        try:
            self._begin(attempt, launch)
        except OSError as error:
            # No process started, for example because the system has no free process or descriptor.
            # The controller retries.
            os.unlink(attempt.path / paths.LAUNCH)
            if not self._is_hopeless(attempt.path, error):
                raise
            attempt.record_end("StartFailed", str(error))
        else:
            self._failing_since.pop(attempt.path, None)

    def delete(
        self, job: Job, replica: ReplicaId, grace: float, *, interrupt: bool = False
    ) -> None:
        """Stop an attempt, by force after `grace` seconds. Ignore an ended attempt."""
        attempt = self._attempt(job, replica)
        attempt.stop(grace, interrupt=interrupt)
        if attempt.is_external:
            self.nudges.notify_after(grace, job.uid)  # to check whether the process stopped itself

    def give_up(self, job_uid: str) -> None:
        """Do nothing, because processes on this machine can always be ended."""

    def list(self, job: Job) -> Sequence[Replica]:
        """Return the current state of all attempts of a job."""
        self._ports.hold_again(job.uid)
        attempts = [*self._attempts(job)]
        seen = [
            attempt.observe(is_starting=self._is_starting(attempt.path)) for attempt in attempts
        ]
        self._await_external(attempts)
        if any(replica.phase is Phase.FAILED for replica in seen):
            # Another replica may have died first and caused the failure although its state is still
            # "running".
            seen = [
                attempt.check_process(replica)
                for attempt, replica in zip(attempts, seen, strict=True)
            ]
        return seen

    def process_of(self, job: Job, replica: ReplicaId) -> AttemptProcess:
        """Return an attempt's devices and process id."""
        attempt = self._attempt(job, replica)
        launch = attempt.launch() if attempt.is_of(job.uid) else None
        if launch is None:
            return AttemptProcess()
        devices = launch.get("devices")
        granted = tuple(devices) if isinstance(devices, list) else None
        return AttemptProcess(granted, attempt.pid())

    def _await_external(self, attempts: Iterable[Attempt]) -> None:
        """Watch for the end of user-started processes."""
        for attempt in attempts:
            if attempt.path in self._awaited or not attempt.is_external or attempt.has_ended:
                continue
            owner = attempt.supervisor()
            if owner is not None:
                self._awaited.add(attempt.path)
                self.nudges.await_end(*owner, attempt.uid)

    def adopt(self, jobs: Iterable[Job]) -> None:
        """Take over the jobs of an earlier runtime of this home.

        Call this method once, when the server starts.

        Attempts that were requested but never started are started now.
        """
        for job in jobs:
            for attempt in self._attempts(job):
                retried(partial(self._adopt, job, attempt))

    def _adopt(self, job: Job, attempt: Attempt) -> None:
        if ":" in attempt.address:
            self._ports.take_up(job.uid, {attempt.name: attempt.address})
        if attempt.has_ended or attempt.is_of_another_home:
            return
        owner = attempt.supervisor()
        if owner is not None:
            self.nudges.await_end(*owner, job.uid)
            # The earlier server may have died before it sent the signal.
            attempt.repeat_stop()
        elif not attempt.is_external and (launch := attempt.launch()) is not None:
            try:
                self._begin(attempt, launch)
            except OSError as error:
                if may_pass(error):
                    raise
                os.unlink(attempt.path / paths.LAUNCH)  # the controller will request it again

    def release(self, job_uid: str) -> None:
        """Release a job's ports and forget its attempts."""
        self._ports.release(job_uid)
        for path in self._attempts_by_job.pop(job_uid, ()):
            self._awaited.discard(path)

    def close(self) -> None:
        """Stop listening for nudges. Replicas continue to run."""
        self.nudges.close()
        self._ports.close()
        self._launchers.close()
        with self._lock:
            for started in self._supervisors.values():
                started.detach()
            self._supervisors.clear()

    def _is_hopeless(self, path: Path, error: OSError) -> bool:
        """Return whether an attempt could not be started for so long that it counts as failed.

        Early failures do not count, because the user may be reinstalling the environment.
        """
        if may_pass(error):
            return False
        since = self._failing_since.setdefault(path, time.monotonic())
        if time.monotonic() - since < self._start_patience:
            return False
        del self._failing_since[path]
        return True

    def _begin(self, attempt: Attempt, launch: dict[str, Any]) -> None:
        """Start an attempt's supervisor.

        Fork the supervisor from a warm launcher, or start a new process if no launcher is ready.
        """
        executable = launch["executable"]
        for path in filter(None, (executable.get("payload"), executable.get("changes"))):
            self._write_blob(os.path.basename(path))
        pid = self._launchers.start(launch["python"], _environ_of(launch), attempt.path)
        if pid is None:
            command = supervisor_command(launch["python"])
            started = _Started(_spawn(command, attempt.path, self._launchers.bytecode))
        else:
            started = _Started(pid=pid)
        self._reap()
        with self._lock:
            self._supervisors[attempt.path] = started
        self.nudges.await_end(started.pid, started.identity, attempt.uid)

    def _is_starting(self, path: Path) -> bool:
        """Return whether this process started the attempt's supervisor and the supervisor is alive.

        Such a supervisor may not hold its lock yet.
        """
        with self._lock:
            started = self._supervisors.get(path)
            return started is not None and started.is_alive

    def _reap(self) -> None:
        with self._lock:
            for path, started in list(self._supervisors.items()):
                if not started.is_alive:
                    del self._supervisors[path]

    def _attempt(self, job: Job, replica: ReplicaId) -> Attempt:
        path = paths.attempt_dir(self._home, job.trial_id, replica)
        return Attempt(job.uid, replica, path, self._home_id)

    def _attempts(self, job: Job) -> Iterable[Attempt]:
        attempts = self._attempts_by_job.setdefault(job.uid, {})
        for replica, path in paths.attempts(self._home, job.trial_id):
            if path in attempts:
                yield attempts[path]
                continue
            attempt = Attempt(job.uid, replica, path, self._home_id)
            # Without a launch file, a crash or a full disk interrupted the request. The controller
            # repeats it.
            if attempt.was_requested and attempt.is_of(job.uid) and not attempt.is_remote:
                attempts[path] = attempt
                yield attempt

    def _set_aside(self, job: Job, replica: ReplicaId) -> None:
        """Rename an attempt's folder that an older trial left behind.

        That trial had the same number, but its database was deleted.
        """
        folder = paths.trial_dir(self._home, job.trial_id)
        number = 1
        while (aside := folder.with_name(f"{job.trial_id}.old-{number}")).exists():
            number += 1
        with self._lock:
            if self._attempt(job, replica).is_of(job.uid):
                return  # another thread renamed the folder and created this job's files
            folder.rename(aside)
            for path in [path for path in self._supervisors if folder in path.parents]:
                moved = aside / path.relative_to(folder)
                self._supervisors[moved] = self._supervisors.pop(path)


def _supervisor_environ() -> dict[str, str]:
    """Return our environment without Windlass variables, in case a trial started this server."""
    own = {name: text for name, text in os.environ.items() if not name.startswith("WINDLASS_")}
    return {**own, DETACHED: "1"}


class _Started:
    """A supervisor that this runtime started directly or through a launcher."""

    def __init__(self, process: subprocess.Popen[bytes] | None = None, pid: int = 0) -> None:
        self._process = process
        self.pid = pid if process is None else process.pid
        self.identity = process_identity(self.pid)

    @property
    def is_alive(self) -> bool:
        if self._process is not None:
            return self._process.poll() is None
        return is_alive(self.pid, self.identity)

    def detach(self) -> None:
        """Mark the process as ended, so that `Popen` does not warn.

        The process itself may still run, because supervisors outlive the server.
        """
        if self._process is not None:
            self._process.returncode = self._process.poll() or 0


def _spawn(command: list[str], attempt: Path, bytecode: str) -> subprocess.Popen[bytes]:
    with open(attempt / "supervisor.err", "ab") as errors:
        os.chmod(errors.fileno(), 0o600)
        return subprocess.Popen(
            [*command, str(attempt), *([bytecode] if bytecode else [])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            cwd="/",
            env=_supervisor_environ(),
            start_new_session=True,
        )


def _environ_of(launch: dict[str, Any]) -> dict[str, str]:
    """Return the environment in which an attempt's interpreter starts."""
    private = read_json(launch["private"]) if launch["private"] else None
    author: dict[str, str] = (private or {}).get("environ") or _supervisor_environ()
    return {**author, **launch["env"]}
