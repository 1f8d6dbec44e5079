"""Trials in SQL: the cache agrees with the database during concurrent writes."""

from __future__ import annotations

import asyncio
import random
import threading
import uuid
from pathlib import Path

import msgspec
import pytest

from windlass.model.job import Job, JobSpec, ProcessCall, Role
from windlass.model.requests import CreateExperiment, CreateTrial, StopTrial
from windlass.model.status import Event, JobStatus, Phase, Replica, ReplicaId
from windlass.server.db.sqlite import SqliteDatabase
from windlass.server.stores.experiments import ExperimentStore
from windlass.server.stores.trials.cache import TrialCache
from windlass.server.stores.trials.store import TrialStore

TRIALS, LOOKS = 12, 40
SPEC = JobSpec(roles=(Role(executable=ProcessCall(argv=("true",))),))


def accept(*_: object) -> None:
    """Refuse no trial."""


def first_status(_job: Job) -> tuple[JobStatus, tuple[()]]:
    return JobStatus(admitted=True), ()


def look_at(store: TrialStore, uids: list[str], chance: random.Random) -> None:
    """Do the work of a controller: load, decide, save if nothing changed meanwhile."""
    for number in range(LOOKS):
        uid = chance.choice(uids)
        loaded = store.load(uid)
        assert loaded is not None
        _, old = loaded
        mine = number + chance.random()
        new = msgspec.structs.replace(old, last_reconcile_time=mine, restarts=old.restarts + 1)
        replica = Replica(id=ReplicaId("main", 0, 1), phase=Phase.RUNNING, started=mine)
        if store.save(uid, old, new, (), (replica,)):
            after = store.load(uid)
            assert after is not None
            assert after[1].restarts > old.restarts, "what was written is seen by who wrote it"


def test_a_trial_inherits_the_priority_of_its_experiment_unless_it_runs_in_a_cluster(
    tmp_path: Path,
) -> None:
    database = SqliteDatabase(tmp_path / "windlass.db")
    store, experiments = TrialStore(database, TrialCache(3)), ExperimentStore(database)

    async def priorities() -> list[int]:
        request = CreateExperiment(key=uuid.uuid4().hex, name="mixed", priority=5)
        experiment = await experiments.create(request)
        records = []
        for backend in ("local", "kubernetes"):
            trial = CreateTrial(
                key=uuid.uuid4().hex,
                experiment="mixed",
                experiment_id=experiment.id,
                spec=msgspec.structs.replace(SPEC, backend=backend),
            )
            [made] = await store.create(
                [trial], before=accept, begin=first_status, then=lambda _new: None
            )
            records.append(made.spec.priority)
        return records

    assert asyncio.run(priorities()) == [5, 0]
    database.close()


@pytest.mark.parametrize("most", [1, 3, 100])
def test_the_cache_equals_the_stored_rows(tmp_path: Path, most: int) -> None:
    database = SqliteDatabase(tmp_path / "windlass.db")
    store = TrialStore(database, TrialCache(most))
    keys = [uuid.UUID(int=number).hex for number in range(TRIALS)]

    async def submit(key: str) -> int:
        request = CreateTrial(key=key, experiment="crowd", spec=SPEC)
        [made] = await store.create(
            [request], before=accept, begin=first_status, then=lambda _new: None
        )
        return made.id

    async def work() -> list[int]:
        ids = await asyncio.gather(*(submit(key) for key in keys))
        workers = [
            threading.Thread(target=look_at, args=(store, keys, random.Random(seed)))
            for seed in range(3)
        ]
        for worker in workers:
            worker.start()
        for grace in range(LOOKS, 0, -1):
            chosen = random.Random(grace).sample(range(TRIALS), 3)
            # The same trial submitted again, another stop, and a read.
            again = submit(keys[chosen[0]])
            stop = store.request_stop(ids[chosen[1]], StopTrial(grace=float(grace)))
            record, _, _ = await asyncio.gather(again, stop, store.record(ids[chosen[2]]))
            assert record == ids[chosen[0]]
        for worker in workers:
            await asyncio.to_thread(worker.join)
        return ids

    async def differing(ids: list[int]) -> list[int]:
        anew = TrialStore(database)
        return [
            number
            for number, key in zip(ids, keys, strict=True)
            if await store.record(number) != await anew.record(number)
            or store.load(key) != anew.load(key)
        ]

    ids = asyncio.run(work())
    assert len(set(ids)) == TRIALS
    assert asyncio.run(differing(ids)) == []
    database.close()


def test_a_decision_from_before_a_change_of_the_spec_is_not_stored(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "windlass.db")
    store = TrialStore(database)
    key = uuid.UUID(int=1).hex
    more = JobSpec(roles=(msgspec.structs.replace(SPEC.roles[0], replicas=2),))
    scaled = Event(time=1.0, reason="Scaled", message="main 1 -> 2")

    async def change() -> list[str | None]:
        request = CreateTrial(key=key, experiment="crowd", spec=SPEC)
        [made] = await store.create(
            [request], before=accept, begin=first_status, then=lambda _new: None
        )
        loaded = store.load(key)
        assert loaded is not None
        _, old = loaded
        uids = [await store.change_spec(made.id, lambda _: (more, [scaled])) for _ in range(2)]
        new = msgspec.structs.replace(old, last_reconcile_time=1.0)
        assert not store.save(key, old, new, (), ()), "it was decided for one replica"
        return uids

    assert asyncio.run(change()) == [key, None], "the second time it is so already"
    for trial_store in (store, TrialStore(database)):
        loaded = trial_store.load(key)
        assert loaded is not None
        assert (loaded[0].spec, loaded[1].generation) == (more, 1)
        assert asyncio.run(trial_store.events(1)) == [scaled]
    database.close()
