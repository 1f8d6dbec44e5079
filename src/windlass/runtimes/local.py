"""Replicas on this machine: each a supervisor in its own session, which outlives the server."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import windlass.worker
from windlass.machine.honouring import problems_of
from windlass.model.job import Assignment, Job, JobSpec
from windlass.model.status import Phase, Replica, ReplicaId
from windlass.runtimes import layout
from windlass.runtimes.attempts import EXTERNAL, Attempt
from windlass.runtimes.launchers import Launchers
from windlass.runtimes.launching import launch_of
from windlass.runtimes.nudges import NudgeListener, Source
from windlass.runtimes.ports import Ports
from windlass.worker.family import DETACHED
from windlass.worker.files import read_json, write_json
from windlass.worker.identity import is_alive, process_identity

_SUPERVISOR = os.path.join(os.path.dirname(windlass.worker.__file__), "supervisor.py")


class Place(NamedTuple):
    """Where an attempt runs on this machine."""

    devices: tuple[int, ...] | None  # none: that is not known
    pid: int | None


class LocalRuntime:
    """Runs replicas as processes of this machine, known by their files under `home`.

    It keeps nothing in memory that matters: another one, made after this one was killed,
    finds the same replicas once `adopt` has been called.
    """

    def __init__(
        self, home: Path, *, has_devices: bool = False, launchers: Launchers | None = None
    ) -> None:
        self._home = home.absolute()
        self._has_devices = has_devices
        self._listener = NudgeListener(self._home)
        self._lock = threading.Lock()
        self._trials: dict[str, int] = {}  # trial ids by the uid of their job
        self._known: dict[str, dict[Path, Attempt]] = {}  # of each job: they know how they ended
        self._supervisors: dict[Path, _Started] = {}  # those we started
        self._awaited: set[Path] = set()  # attempts that we did not start, but hear the end of
        self._ports = Ports()
        self._launchers = launchers or Launchers()
        self._listener.on_change(lambda _uid: self._reap())

    @property
    def nudge_path(self) -> str:
        """The socket for nudges, to be named in `server.json`."""
        return self._listener.path

    def validate(self, spec: JobSpec) -> list[str]:
        """What a spec asks for that this machine cannot honour; empty if nothing."""
        return problems_of(spec)

    def watch(self, callback: Callable[[str], None]) -> None:
        """Have the uid of each job told, in a thread of ours, whose replicas may have changed."""
        self._listener.on_change(callback)

    def watch_logs(self, callback: Callable[[int], None]) -> None:
        """Have the id of each trial told, in a thread of ours, whose log may have grown."""
        self._listener.on_log(callback)

    def watch_metrics(self, callback: Callable[[Source], None]) -> None:
        """Have each attempt told, in a thread of ours, that reported something."""
        self._listener.on_metrics(callback)

    def watch_checkpoints(self, callback: Callable[[Source], None]) -> None:
        """Have each attempt told, in a thread of ours, that saved a checkpoint."""
        self._listener.on_checkpoint(callback)

    def addresses(self, job: Job, known: Mapping[str, str]) -> dict[str, str]:
        """Where each replica of a job will be reached by the others; one alone needs nothing."""
        roles = job.spec.roles
        if not job.spec.framework and sum(role.replicas for role in roles) <= 1:
            return dict(known)
        names = [f"{role.name}-{index}" for role in roles for index in range(role.replicas)]
        return self._ports.addresses(job.uid, names, known)

    def create(self, job: Job, replica: ReplicaId, given: Assignment) -> None:
        """Start a replica, unless it was started before."""
        self._trials[job.uid] = job.trial_id
        attempt = self._attempt(job, replica)
        if not attempt.is_of(job.uid):
            self._set_aside(job, replica)
        if attempt.has_ended or self._is_starting(attempt.path) or attempt.is_alive:
            return
        if attempt.was_begun:
            return  # its supervisor died: `list` will tell
        if given.addresses:
            self._ports.take_up(job.uid, given.addresses)
        attempt.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        launch = launch_of(self._home, job, replica, given, has_devices=self._has_devices)
        write_json(str(attempt.path / layout.LAUNCH), launch)
        if launch["executable"]["type"] == EXTERNAL:
            return  # it runs already, and says so itself
        try:
            self._begin(attempt, launch)
        except OSError:
            # No process or descriptor is left: nobody was asked, and it is asked for again.
            os.unlink(attempt.path / layout.LAUNCH)
            raise

    def delete(self, job_uid: str, replica: ReplicaId, grace: float) -> None:
        """Have a replica end, with so many seconds to do it in; nothing if it has."""
        trial_id = self._trial_id(job_uid)
        if trial_id is not None:
            path = layout.attempt_dir(self._home, trial_id, replica)
            attempt = Attempt(job_uid, replica, path)
            attempt.stop(grace, "")
            if attempt.is_external:
                self._listener.look_after(grace, job_uid)  # whether it heard

    def list(self, job: Job) -> Sequence[Replica]:
        """How each attempt of a job stands."""
        self._trials[job.uid] = job.trial_id
        self._ports.hold_again(job.uid)
        attempts = [*self._attempts(job)]
        seen = [each.observe(is_starting=self._is_starting(each.path)) for each in attempts]
        self._await_external(attempts)
        if any(each.phase is Phase.FAILED for each in seen):
            # One that seems to run may have died before it, and be the cause of its death.
            seen = [each.feel_pulse(what) for each, what in zip(attempts, seen, strict=True)]
        return seen

    def place_of(self, job_uid: str, trial_id: int, replica: ReplicaId) -> Place:
        """What an attempt was given, and the process it runs as."""
        attempt = Attempt(job_uid, replica, layout.attempt_dir(self._home, trial_id, replica))
        given = attempt.launch() if attempt.is_of(job_uid) else None
        devices = (given or {}).get("devices")
        known = tuple(devices) if isinstance(devices, list) else None
        return Place(known, attempt.pid() if given else None)

    def _await_external(self, attempts: Iterable[Attempt]) -> None:
        """Hear of the ends of processes that we did not start."""
        for attempt in attempts:
            if attempt.path in self._awaited or not attempt.is_external or attempt.has_ended:
                continue
            owner = attempt.supervisor()
            if owner is not None:
                self._awaited.add(attempt.path)
                self._listener.await_end(*owner, attempt.uid)

    def adopt(self, jobs: Iterable[Job]) -> None:
        """Take over what another runtime of this home left: to be called once, at the start.

        An attempt that was asked for but never begun is begun now.
        """
        for job in jobs:
            self._trials[job.uid] = job.trial_id
            for attempt in self._attempts(job):
                if ":" in attempt.address:
                    self._ports.take_up(job.uid, {attempt.name: attempt.address})
                if attempt.has_ended:
                    continue
                owner = attempt.supervisor()
                if owner is not None:
                    self._listener.await_end(*owner, job.uid)
                    attempt.tell_again_to_stop()  # who wrote that down may have been killed then
                elif not attempt.is_external and (launch := attempt.launch()) is not None:
                    self._begin(attempt, launch)

    def release(self, job_uid: str) -> None:
        """Let go of the ports of a job, and of what is known of its attempts."""
        self._ports.release(job_uid)
        for path in self._known.pop(job_uid, ()):
            self._awaited.discard(path)

    def close(self) -> None:
        """Stop listening. What runs goes on running."""
        self._listener.close()
        self._ports.close()
        self._launchers.close()
        with self._lock:
            for started in self._supervisors.values():
                started.let_go()
            self._supervisors.clear()

    def _begin(self, attempt: Attempt, launch: dict[str, Any]) -> None:
        """Start the supervisor of an attempt: by a fork if a launcher is warm, else anew."""
        pid = self._launchers.start(launch["python"], _environ_of(launch), attempt.path)
        started = _Started(_spawn(attempt.path)) if pid is None else _Started(pid=pid)
        self._reap()
        with self._lock:
            self._supervisors[attempt.path] = started
        self._listener.await_end(started.pid, started.identity, attempt.uid)

    def _is_starting(self, path: Path) -> bool:
        """Whether a supervisor that we started for it is there, with its lock or without."""
        with self._lock:
            started = self._supervisors.get(path)
            return started is not None and started.is_alive

    def _reap(self) -> None:
        with self._lock:
            for path, started in list(self._supervisors.items()):
                if not started.is_alive:
                    del self._supervisors[path]

    def _attempt(self, job: Job, replica: ReplicaId) -> Attempt:
        return Attempt(job.uid, replica, layout.attempt_dir(self._home, job.trial_id, replica))

    def _attempts(self, job: Job) -> Iterable[Attempt]:
        known = self._known.setdefault(job.uid, {})
        for replica, path in layout.attempts(self._home, job.trial_id):
            if path in known:
                yield known[path]
                continue
            attempt = Attempt(job.uid, replica, path)
            # One without a launch file was to be made when we were killed, or the disk was full:
            # it is asked for again, as if it had never been.
            if attempt.was_asked_for and attempt.is_of(job.uid) and not attempt.is_away:
                known[path] = attempt
                yield attempt

    def _trial_id(self, uid: str) -> int | None:
        """The trial of a job; looked for in the files if this runtime never heard of it."""
        if uid not in self._trials:
            for launch in self._home.glob("trials/*/*/*/launch.json"):
                trial_id = launch.parts[-4]
                if trial_id.isdecimal() and Attempt(uid, ReplicaId("", 0, 0), launch.parent).is_of(
                    uid
                ):
                    self._trials[uid] = int(trial_id)
                    break
        return self._trials.get(uid)

    def _set_aside(self, job: Job, replica: ReplicaId) -> None:
        """Move the files of another trial of that number out of the way: its database is gone."""
        folder = layout.trial_dir(self._home, job.trial_id)
        number = 1
        while (aside := folder.with_name(f"{job.trial_id}.old-{number}")).exists():
            number += 1
        with self._lock:
            if self._attempt(job, replica).is_of(job.uid):
                return  # another thread did it, and its own files are there
            folder.rename(aside)
            for path in [path for path in self._supervisors if folder in path.parents]:
                moved = aside / path.relative_to(folder)
                self._supervisors[moved] = self._supervisors.pop(path)


def _supervisor_environ() -> dict[str, str]:
    """Our own, without the marks of a trial: one may have started this server."""
    own = {name: text for name, text in os.environ.items() if not name.startswith("WINDLASS_")}
    return {**own, DETACHED: "1"}


class _Started:
    """A supervisor that this runtime started, itself or by a launcher."""

    def __init__(self, process: subprocess.Popen[bytes] | None = None, pid: int = 0) -> None:
        self._process = process
        self.pid = pid if process is None else process.pid
        self.identity = process_identity(self.pid)

    @property
    def is_alive(self) -> bool:
        if self._process is not None:
            return self._process.poll() is None
        return is_alive(self.pid, self.identity)

    def let_go(self) -> None:
        """They outlive us on purpose: nothing to warn about."""
        if self._process is not None:
            self._process.returncode = self._process.poll() or 0


def _spawn(attempt: Path) -> subprocess.Popen[bytes]:
    with open(attempt / "supervisor.err", "ab") as errors:
        os.chmod(errors.fileno(), 0o600)
        return subprocess.Popen(
            [sys.executable, "-I", "-S", _SUPERVISOR, str(attempt)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            cwd="/",
            env=_supervisor_environ(),
            start_new_session=True,
        )


def _environ_of(launch: dict[str, Any]) -> dict[str, str]:
    """The environment its process will have, as far as an interpreter's start depends on it."""
    private = read_json(launch["private"]) if launch["private"] else None
    author: dict[str, str] = (private or {}).get("environ") or _supervisor_environ()
    return {**author, **launch["env"]}
