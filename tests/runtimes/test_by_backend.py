"""The runtimes of all backends behind one: each job goes to the runtime of its backend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from windlass.home import Home
from windlass.model.errors import Unsupported
from windlass.model.job import Assignment, Job, JobSpec, ProcessCall, Role
from windlass.model.status import Phase, Replica, ReplicaId
from windlass.runtimes.base import AttemptProcess, ServerContext, ServerRuntime
from windlass.runtimes.by_backend import RemoteBackend, Runtimes

FIRST = ReplicaId("main", 0, 1)


class MemoryRuntime:
    """A backend in memory that records its calls."""

    def __init__(self, pid: int | None = None) -> None:
        self.pid = pid
        self.attempts: dict[str, list[ReplicaId]] = {}
        self.adopted: list[str] = []
        self.released: list[str] = []
        self.given_up: list[str] = []
        self.is_closed = False
        self.on_change: list[Callable[[str], None]] = []
        self.on_trial: list[Callable[[int], None]] = []

    def validate(self, spec: JobSpec) -> list[str]:
        return [f"{spec.backend} is full"]

    def addresses(self, job: Job, assigned: Mapping[str, str]) -> dict[str, str]:
        return {**assigned, "main-0": f"{job.spec.backend}:1"}

    def create(self, job: Job, replica: ReplicaId, assignment: Assignment) -> None:
        del assignment
        self.attempts.setdefault(job.uid, []).append(replica)

    def delete(
        self, job: Job, replica: ReplicaId, grace: float, *, interrupt: bool = False
    ) -> None:
        del grace, interrupt
        self.attempts[job.uid].remove(replica)

    def list(self, job: Job) -> Sequence[Replica]:
        return [
            Replica(id=replica_id, phase=Phase.RUNNING)
            for replica_id in self.attempts.get(job.uid, ())
        ]

    def process_of(self, job: Job, replica: ReplicaId) -> AttemptProcess:
        del job, replica
        return AttemptProcess(pid=self.pid)

    def adopt(self, jobs: Iterable[Job]) -> None:
        self.adopted += [job.uid for job in jobs]

    def give_up(self, job_uid: str) -> None:
        self.given_up.append(job_uid)

    def release(self, job_uid: str) -> None:
        self.released.append(job_uid)

    def watch(self, callback: Callable[[str], None]) -> None:
        self.on_change.append(callback)

    def watch_trials(self, callback: Callable[[int], None]) -> None:
        self.on_trial.append(callback)

    def close(self) -> None:
        self.is_closed = True


class World:
    """A local and a remote backend; the remote one counts how often it was created."""

    def __init__(self, home: Path, *, has_jobs: bool = False) -> None:
        self.local, self.remote = MemoryRuntime(pid=7), MemoryRuntime()
        self.created = 0
        context = ServerContext(
            home=Home(home), token_for=lambda uid: uid, url=lambda: "", urls=list
        )
        backend = RemoteBackend(self._create, lambda _home: has_jobs)
        self.runtimes: ServerRuntime = Runtimes(self.local, context, {"far": backend})

    def _create(self, server: ServerContext) -> ServerRuntime:
        del server
        self.created += 1
        return self.remote


def job(uid: str, backend: str) -> Job:
    role = Role(executable=ProcessCall(argv=("true",)))
    return Job(uid=uid, trial_id=1, spec=JobSpec(roles=(role,), backend=backend))


HERE, THERE = job("here", "local"), job("there", "far")


def test_each_job_goes_to_the_runtime_of_its_backend(tmp_path: Path) -> None:
    world = World(tmp_path)
    for job_here, runtime in ((HERE, world.local), (THERE, world.remote)):
        world.runtimes.create(job_here, FIRST, Assignment())
        assert runtime.attempts == {job_here.uid: [FIRST]}
        assert [replica.id for replica in world.runtimes.list(job_here)] == [FIRST]
        assert world.runtimes.validate(job_here.spec) == [f"{job_here.spec.backend} is full"]
        assert world.runtimes.addresses(job_here, {}) == {"main-0": f"{job_here.spec.backend}:1"}
        assert world.runtimes.process_of(job_here, FIRST).pid == runtime.pid
        world.runtimes.delete(job_here, FIRST, 0.0)
        assert runtime.attempts == {job_here.uid: []}


def test_the_runtime_of_a_remote_backend_is_created_once_and_when_a_job_needs_it(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    uids: list[str] = []
    trials: list[int] = []
    world.runtimes.watch(uids.append)
    world.runtimes.watch_trials(trials.append)
    world.runtimes.release("here")
    assert world.created == 0
    world.runtimes.list(THERE)
    world.runtimes.list(THERE)
    assert world.created == 1
    for runtime in (world.local, world.remote):
        [on_change], [on_trial] = runtime.on_change, runtime.on_trial
        on_change("uid")
        on_trial(3)
    assert (uids, trials) == (["uid", "uid"], [3, 3])


def test_a_backend_with_jobs_of_an_earlier_server_is_created_at_once(tmp_path: Path) -> None:
    world = World(tmp_path, has_jobs=True)
    assert world.created == 1
    world.runtimes.adopt([HERE])
    assert (world.local.adopted, world.remote.adopted) == (["here"], [])


def test_each_runtime_adopts_its_own_jobs_and_unknown_backends_are_left_alone(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    world.runtimes.adopt([HERE, THERE, job("newer", "moon")])
    assert (world.local.adopted, world.remote.adopted) == (["here"], ["there"])


def test_the_end_of_a_job_and_of_the_server_reach_every_runtime(tmp_path: Path) -> None:
    world = World(tmp_path, has_jobs=True)
    world.runtimes.give_up("there")
    world.runtimes.release("there")
    world.runtimes.close()
    for runtime in (world.local, world.remote):
        assert (runtime.given_up, runtime.released) == (["there"], ["there"])
        assert runtime.is_closed


def test_a_job_of_an_unknown_backend_is_refused_with_the_names_of_the_known_ones(
    tmp_path: Path,
) -> None:
    with pytest.raises(Unsupported, match="no backend 'moon'") as refused:
        World(tmp_path).runtimes.validate(job("uid", "moon").spec)
    assert refused.value.hint == 'It has: "local", "far".'
