"""Every request of an agent for an existing trial counts as contact."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from windlass.home import Home
from windlass.model.errors import NotFound
from windlass.model.job import JobSpec, ProcessCall, Role
from windlass.model.requests import CreateTrial
from windlass.model.status import JobStatus, ReplicaId
from windlass.runtimes.kubernetes.agents.last_seen import AGENTS_LAST_SEEN, AgentsLastSeen
from windlass.server.api import agents
from windlass.server.db.sqlite import SqliteDatabase
from windlass.server.services import Services
from windlass.server.stores.trials.store import TrialStore

FIRST = ReplicaId("main", 0, 1)


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    """The parts of a server that handle a request of an agent before its response."""
    database = SqliteDatabase(tmp_path / "windlass.db")
    parts = {
        "home": Home(tmp_path),
        "trials": TrialStore(database),
        "nudge_path": "",
    }
    yield cast("Services", SimpleNamespace(**parts))
    database.close()


def test_a_request_of_an_agent_counts_as_contact(services: Services) -> None:
    uid = asyncio.run(made(services))
    assert AGENTS_LAST_SEEN.last(uid, FIRST) is None
    with pytest.raises(NotFound, match=r"The server did not request main-0\.1"):
        asyncio.run(agents.package(services, uid, "main", 0, 1))
    assert AGENTS_LAST_SEEN.last(uid, FIRST) is not None
    assert AGENTS_LAST_SEEN.last(uid, ReplicaId("main", 1, 1)) is None


def test_a_request_for_an_unknown_trial_is_not_recorded(services: Services) -> None:
    unknown = uuid.uuid4().hex
    with pytest.raises(NotFound, match="no such trial"):
        asyncio.run(agents.package(services, unknown, "main", 0, 1))
    assert AGENTS_LAST_SEEN.last(unknown, FIRST) is None


def test_agents_with_the_oldest_contact_are_dropped_first() -> None:
    heard = AgentsLastSeen(clock=lambda: 5.0, most=2)
    for uid in ("a", "b", "a", "c"):
        heard.note(uid, FIRST)
    assert [heard.last(uid, FIRST) for uid in "abc"] == [5.0, None, 5.0]


async def made(services: Services) -> str:
    """Create a trial and return its uid."""
    spec = JobSpec(roles=(Role(executable=ProcessCall(argv=("true",))),))
    trial = CreateTrial(key=uuid.uuid4().hex, experiment="e", spec=spec)
    [record] = await services.trials.create(
        [trial],
        before=lambda _connection, _new: None,
        begin=lambda _job: (JobStatus(), ()),
        then=lambda _new: None,
    )
    return record.uid
