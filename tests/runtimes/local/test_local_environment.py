"""The environment of a replica: its identity, the addresses of its peers, framework variables."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_runtime import World

from harness import eventually
from windlass.model.hardware.resources import Resources
from windlass.model.job import Job, ProcessCall, RestartScope, Role
from windlass.model.status import Phase, ReplicaId

SHOWS = ProcessCall(
    argv=("python", "-c", "import json, os; print(json.dumps(dict(os.environ)), flush=True)")
)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "home")
    yield world
    world.close()


def environs(world: World, job: Job, attempt: int = 1) -> dict[str, dict[str, str]]:
    """The environment of every replica's process at its start."""
    environments = {}
    for replica in world.start_all(job, attempt):
        assert world.end_of(job, replica).exit_code == 0
        [(_, line)] = world.lines(job, replica)
        environments[f"{replica.role}-{replica.index}"] = json.loads(line)
    return environments


def test_a_single_replica_knows_its_identity_and_loads_no_framework(world: World) -> None:
    environ = environs(world, world.job(SHOWS))["main-0"]
    assert environ["WINDLASS_RANK"] == "0"
    assert environ["WINDLASS_WORLD_SIZE"] == "1"
    assert json.loads(environ["WINDLASS_HOSTS"]) == {"main": ["127.0.0.1"]}
    assert not {"RANK", "TF_CONFIG", "WINDLASS_CHECKPOINT"} & set(environ)
    # The launcher of such a job must not import frameworks, because this would slow it down.
    script = """if True:
        import sys
        from pathlib import Path
        from windlass.model.job import *
        from windlass.model.status import ReplicaId
        from windlass.runtimes.launch_file import build_launch
        import windlass.runtimes.local.runtime
        role = Role(executable=ProcessCall(argv=("true",)))
        job = Job(uid="u", trial_id=1, spec=JobSpec(roles=(role,)))
        build_launch(Path("/h"), job, ReplicaId("main", 0, 1), Assignment(), has_devices=False)
        print([name for name in sys.modules if name.startswith("windlass.frameworks")])
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_replicas_of_roles_without_a_framework(world: World) -> None:
    job = world.job(
        SHOWS,
        roles=(
            Role(executable=SHOWS, name="reader", service=True),
            Role(executable=SHOWS, name="trainer", replicas=2, env={"MODE": "fast"}),
        ),
    )
    environments = environs(world, job)
    addresses = world.addresses[job.uid]
    for environ in environments.values():
        assert environ["WINDLASS_WORLD_SIZE"] == "2"
        assert json.loads(environ["WINDLASS_HOSTS"]) == {
            "reader": [addresses["reader-0"]],
            "trainer": [addresses["trainer-0"], addresses["trainer-1"]],
        }
    ranks = {name: environ.get("WINDLASS_RANK") for name, environ in environments.items()}
    assert ranks == {"reader-0": None, "trainer-0": "0", "trainer-1": "1"}
    assert environments["trainer-1"]["MODE"] == "fast"
    assert "MODE" not in environments["reader-0"]


@pytest.mark.thorough
def test_a_tensorflow_job_and_its_next_attempt_see_the_same_cluster(world: World) -> None:
    sizes = {"chief": 1, "worker": 2, "ps": 2, "evaluator": 1}
    job = world.job(
        SHOWS,
        framework="tensorflow",
        roles=tuple(
            Role(executable=SHOWS, name=name, replicas=size, service=name in ("ps", "evaluator"))
            for name, size in sizes.items()
        ),
    )
    first = environs(world, job)
    addresses = world.addresses[job.uid]
    cluster = {
        name: [addresses[f"{name}-{index}"] for index in range(size)]
        for name, size in sizes.items()
        if name != "evaluator"
    }
    for name, environ in first.items():
        role, _, index = name.rpartition("-")
        task = {"type": role, "index": int(index)}
        assert json.loads(environ["TF_CONFIG"]) == {"cluster": cluster, "task": task}
    again = environs(world, job, attempt=2)
    assert {name: environ["TF_CONFIG"] for name, environ in again.items()} == {
        name: environ["TF_CONFIG"] for name, environ in first.items()
    }
    assert {environ["WINDLASS_ATTEMPT"] for environ in again.values()} == {"2"}


def test_variables_of_the_job_override_those_of_the_framework(world: World) -> None:
    job = world.job(
        SHOWS, name="worker", replicas=2, framework="torch", env={"MASTER_ADDR": "localhost"}
    )
    environments = environs(world, job)
    assert {environ["MASTER_ADDR"] for environ in environments.values()} == {"localhost"}
    assert [environments[f"worker-{index}"]["RANK"] for index in range(2)] == ["0", "1"]
    port = world.addresses[job.uid]["worker-0"].partition(":")[2]
    assert {environ["MASTER_PORT"] for environ in environments.values()} == {port}


def test_a_job_of_another_size_gets_its_size(world: World) -> None:
    job = world.job(SHOWS, name="worker", replicas=2, framework="torch")
    environs(world, job)
    role = Role(executable=SHOWS, name="worker", replicas=3)
    spec = type(job.spec)(roles=(role,), framework="torch")
    environments = environs(world, Job(uid=job.uid, trial_id=job.trial_id, spec=spec), attempt=2)
    assert [environments[f"worker-{index}"]["WORLD_SIZE"] for index in range(3)] == ["3"] * 3


def test_variables_of_the_authors_own_trial_are_not_passed_on(world: World) -> None:
    private = {"environ": {"WINDLASS_RANK": "7", "WINDLASS_CHECKPOINT": "/old", "PATH": "/bin"}}
    service = Role(executable=SHOWS, name="reader", service=True)
    trainer = Role(executable=SHOWS, name="trainer")
    environments = environs(world, world.job(SHOWS, roles=(service, trainer), private=private))
    assert "WINDLASS_RANK" not in environments["reader-0"]
    assert environments["trainer-0"]["WINDLASS_RANK"] == "0"
    assert "WINDLASS_CHECKPOINT" not in environments["trainer-0"]


def test_framework_variables_of_a_trial_are_not_passed_to_trials_it_submits(
    world: World,
) -> None:
    outer = environs(world, world.job(SHOWS, name="worker", replicas=2, framework="torch"))
    author = {**outer["worker-1"], "MINE": "kept"}
    inner = environs(world, world.job(SHOWS, private={"environ": author}))["main-0"]
    assert inner["MINE"] == "kept"
    assert not {"RANK", "MASTER_PORT", "PET_NNODES", "OMP_NUM_THREADS", "WINDLASS_GIVEN"} & {*inner}


@pytest.mark.thorough
def test_each_of_several_replicas_has_one_thread_per_cpu_by_default(world: World) -> None:
    resources = Resources(cpus=2.5)
    several = world.job(SHOWS, name="worker", replicas=2, resources=resources)
    environments = environs(world, several)
    assert [environ["OMP_NUM_THREADS"] for environ in environments.values()] == ["2", "2"]
    private = {"environ": {"OMP_NUM_THREADS": "7"}}
    worker_environments = environs(
        world, world.job(SHOWS, name="worker", replicas=2, private=private)
    )
    assert {environ["OMP_NUM_THREADS"] for environ in worker_environments.values()} == {"7"}


@pytest.mark.finding("U9")
def test_libraries_use_as_many_threads_as_the_author_requests_cpus(world: World) -> None:
    requested = Resources(cpus=2.5, threads=2)
    environ = environs(world, world.job(SHOWS, resources=requested))["main-0"]
    assert environ["OMP_NUM_THREADS"] == "2"
    inner = environs(world, world.job(SHOWS, private={"environ": environ}))["main-0"]
    assert "OMP_NUM_THREADS" not in inner
    author = {"environ": {"OMP_NUM_THREADS": "7"}}
    environ = environs(world, world.job(SHOWS, resources=requested, private=author))["main-0"]
    assert environ["OMP_NUM_THREADS"] == "7"


def test_only_rank_0_returns_its_value(world: World) -> None:
    """Values of other ranks may be large, or impossible to pickle."""

    def rank_or_lock() -> object:
        import os
        import threading

        rank = int(os.environ["WINDLASS_RANK"])
        return rank if rank == 0 else threading.Lock()

    job = world.call(rank_or_lock, name="worker", replicas=2)
    first, second = world.start_all(job)
    assert world.end_of(job, second).phase is Phase.SUCCEEDED
    assert world.end_of(job, first).phase is Phase.SUCCEEDED
    assert world.value(job, first) == 0
    assert not world.path(job, "result.pkl", second).exists()
    assert not world.path(job, "error.json", second).exists()


def test_a_service_returns_no_value(world: World) -> None:
    def serve() -> str:
        return "done"

    job = world.call(serve)
    executable = job.spec.roles[0].executable
    roles = (
        Role(executable=executable, name="reader", service=True),
        Role(executable=executable, name="trainer"),
    )
    job = Job(uid=job.uid, trial_id=job.trial_id, spec=type(job.spec)(roles=roles))
    reader, trainer = world.start_all(job)
    assert world.end_of(job, reader).phase is Phase.SUCCEEDED
    world.end_of(job, trainer)
    assert world.value(job, ReplicaId("trainer", 0, 1)) == "done"
    assert not world.path(job, "result.pkl", reader).exists()


def test_the_next_attempt_of_every_replica_resumes_from_the_checkpoint(world: World) -> None:
    """Rank 0 saves it before it is killed, and all replicas find it."""

    def train() -> tuple[str | None, str | None, list[int]]:
        import os
        import signal

        import windlass as wl

        checkpoint = wl.latest_checkpoint()
        if checkpoint is None:
            with open("model.txt", "w") as file:
                file.write(f"of rank {wl.rank()}")
            wl.save_checkpoint("model.txt", step=5)
            os.kill(os.getpid(), signal.SIGKILL)
        with open(checkpoint or "") as file:
            print(file.read(), wl.rank(), wl.world_size())
        return checkpoint, os.environ.get("WINDLASS_CHECKPOINT"), [wl.rank(), wl.world_size()]

    job = world.call(train, name="worker", replicas=2, framework="torch")
    first, second = world.start_all(job)
    assert world.end_of(job, first).exit_code == 137
    world.end_of(job, second)
    folder = world.home / "trials" / str(job.trial_id) / "checkpoints"
    first, second = world.start_all(job, attempt=2)
    for replica in (first, second):
        assert world.end_of(job, replica).exit_code == 0
        assert world.lines(job, replica) == [("stdout", f"of rank 0 {replica.index} 2")]
    kept, value, place = world.value(job, first)
    assert kept == value
    copy = Path(value).parent
    assert copy.parent == folder / ".restored" and copy.name.endswith(".worker-0-2")
    assert place == [0, 2]
    assert [path.name for path in folder.iterdir() if path.suffix == ".json"] == ["1.json"]


@pytest.mark.thorough
def test_replicas_that_start_together_share_one_copy_of_the_checkpoint(
    world: World, tmp_path: Path
) -> None:
    """No copy of earlier attempts is left, also after writes to it."""
    gate = tmp_path / "gate"

    def train(gate: str) -> None:
        import os
        import time

        import windlass as wl

        value = os.environ.get("WINDLASS_CHECKPOINT")
        if value is None:
            with open("model.txt", "w") as file:
                file.write("saved")
            wl.save_checkpoint("model.txt")
            return
        assert wl.latest_checkpoint() == value
        with open(value) as file:
            assert file.read() == "saved"
        print(value, flush=True)
        while not os.path.exists(gate):
            time.sleep(0.01)  # no notification for a file
        with open(value, "w") as file:
            file.write("spoilt")

    job = world.call(
        train, str(gate), name="worker", replicas=2, framework="torch",
        restart_scope=RestartScope.JOB,
    )  # fmt: skip
    for replica in world.start_all(job):
        assert world.end_of(job, replica).exit_code == 0
    copies = world.home / "trials" / str(job.trial_id) / "checkpoints" / ".restored"
    for attempt in (2, 3):
        gate.unlink(missing_ok=True)
        replicas = world.start_all(job, attempt=attempt)
        eventually(lambda both=replicas: all(world.lines(job, r) for r in both), "both began")
        [path] = {world.lines(job, replica)[0][1] for replica in replicas}
        assert [path.name for path in copies.iterdir()] == [Path(path).parent.name]
        gate.touch()
        assert [world.end_of(job, replica).exit_code for replica in replicas] == [0, 0]
