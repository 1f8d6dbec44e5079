"""Malicious or unusual requests of an agent are refused or accepted without other effects."""

from __future__ import annotations

import hashlib
import itertools
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_processes import RemoteSite, programs, request

import windlass as wl
from harness import PATIENCE
from windlass.model.job import Assignment, Job
from windlass.model.records import TrialRecord
from windlass.model.status import ReplicaId
from windlass.runtimes import remote_attempt
from windlass.worker.agent.http_channel import Changed, Channel, FileBody


@pytest.fixture
def elsewhere(home: Path, tmp_path: Path) -> Iterator[RemoteSite]:
    place = RemoteSite(home, tmp_path / "elsewhere", through_tunnels=False)
    yield place
    place.front.close()


class Hostile:
    """A client with the token of a trial that sends arbitrary requests."""

    def __init__(self, place: RemoteSite, record: TrialRecord, attempt: int) -> None:
        job = Job(uid=record.uid, trial_id=record.id, spec=record.spec)
        self._token = place.token(record.uid)
        role = record.spec.roles[0].name
        self._part = uuid.uuid4().hex
        self._bases = []
        for index in range(2):
            remote_attempt.ask_for(place.home, job, ReplicaId(role, index, attempt), Assignment())
            base = f"{place.url()}/api/v1/agents/{record.uid}/{role}/{index}/{attempt}"
            self._bases.append(base)

    def put(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        assert request(f"{self._bases[0]}/blobs/{digest}", self._token, "PUT", data) == 200
        return digest

    def part(self, rank: int, manifest: str) -> int:
        part = {
            "uid": self._part, "name": "model", "manifest": manifest, "step": 1,
            "rank": rank, "ranks": 2,
        }  # fmt: skip
        return self._post(rank, "parts", part)

    def checkpoint(self, manifest: str, name: str = "model") -> int:
        record = {
            "uid": uuid.uuid4().hex, "name": name, "manifest": manifest, "is_folder": True,
            "time": 1.0,
        }  # fmt: skip
        return self._post(0, "checkpoints", record)

    def _post(self, rank: int, where: str, value: Any) -> int:
        body = json.dumps(value).encode()
        return request(f"{self._bases[rank]}/{where}", self._token, "POST", body)


@pytest.fixture(scope="module")
def attempted(module_home: Path) -> tuple[TrialRecord, Iterator[int]]:
    """A finished trial and numbers of attempts that it does not have yet."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("WINDLASS_HOME", str(module_home))
        environment.delenv("WINDLASS_SERVER", raising=False)
        trial = wl.run(programs.save_odd_names, replicas=2).submit([]).wait(timeout=PATIENCE)
        return trial.record, itertools.count(2)


@pytest.fixture
def hostile(elsewhere: RemoteSite, attempted: tuple[TrialRecord, Iterator[int]]) -> Hostile:
    record, attempts = attempted
    return Hostile(elsewhere, record, next(attempts))


def listing(*entries: tuple[Any, ...]) -> bytes:
    return json.dumps({"files": entries, "version": 2}, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    "entry",
    [
        ("p", "f", "../token", 1, 0, "x"),
        ("p", "f", "../token", 1),
        ("p", "f", "../../../../../../../../dev/zero", 2 << 30, 0, "x"),
        ("p", "f", "{own}", 2 << 30, 0, "x"),
        ("p", "f", "{own}", 1, 1 << 62, "x"),
        ("../p", "f", "{own}", 1),
    ],
)
def test_a_part_with_an_invalid_entry_is_refused(hostile: Hostile, entry: tuple[Any, ...]) -> None:
    own = hostile.put(b"a")
    response = hostile.put(listing((entry[0], entry[1], entry[2].format(own=own), *entry[3:])))
    assert hostile.part(0, hostile.put(listing(("p", "f", own, 1)))) == 200
    assert hostile.part(1, response) == 400
    assert hostile.checkpoint(response) == 400


def test_a_checkpoint_with_an_invalid_list_of_files_is_refused(hostile: Hostile) -> None:
    good = hostile.put(listing(("p", "f", hostile.put(b"a"), 1)))
    assert hostile.checkpoint(hostile.put(b'{"files":[' + b" " * 1000)) == 400
    assert hostile.checkpoint("f" * 64) == 409
    assert hostile.checkpoint(good, name="..") == 400
    assert hostile.checkpoint(good) == 200


@pytest.mark.finding("A15")
@pytest.mark.parametrize("name", ["a\0b", "a/b", ""])
def test_a_checkpoint_with_an_invalid_name_is_refused(hostile: Hostile, name: str) -> None:
    good = hostile.put(listing(("p", "f", hostile.put(b"a"), 1)))
    assert hostile.checkpoint(good, name=name) == 400


@pytest.mark.finding("A15")
@pytest.mark.parametrize("place", [(0,), (2,), (1 << 40,), (-1,), (1, 1, "x"), (0, 5, "x")])
def test_a_checkpoint_with_false_sizes_is_refused(hostile: Hostile, place: tuple[Any, ...]) -> None:
    stated = hostile.put(listing(("p", "f", hostile.put(b"a"), *place)))
    assert hostile.checkpoint(stated) == 400
    assert hostile.part(0, stated) == 400


@pytest.mark.thorough
def test_a_refused_upload_does_not_block_others(elsewhere: RemoteSite, tmp_path: Path) -> None:
    # On the server's machine a rank would fail at once, because its file belongs to another rank.
    trial = wl.run(programs.save_odd_names, replicas=2).submit([0, 1, 2]).wait(timeout=PATIENCE)
    assert trial.state == "FAILED"
    uids = {checkpoint.uid for checkpoint in trial.list_checkpoints()}
    agents = [elsewhere.run(trial, index=index) for index in (0, 1)]
    assert [agent.wait() for agent in agents] == [0, 0]
    assert [agent.ending()["exit_code"] for agent in agents] == [0, 0]
    new = [
        checkpoint
        for checkpoint in trial.refresh().list_checkpoints()
        if checkpoint.uid not in uids
    ]
    assert sorted(checkpoint.step or 0 for checkpoint in new) == [0, 2]
    for saved in new:
        folder = saved.download(tmp_path / str(saved.step))
        assert (folder / ("ab" * 32)).read_text() == "a file that is called like a blob"
        assert (folder / "same").read_text() == "the same"
    outputs = agents[0].folder.parent / "outputs"
    assert (outputs / "kept.txt").read_bytes() == b"kept.txt"
    # Each under its own printable name.
    assert (outputs / "odd%FF").read_bytes() == b"odd\xff"
    assert (outputs / "odd%FE").read_bytes() == b"odd\xfe"


@pytest.mark.thorough
def test_an_output_that_changes_during_its_upload_stops_nothing(
    elsewhere: RemoteSite, tmp_path: Path
) -> None:
    sign = tmp_path / "sign"
    trial = wl.run(programs.rewrite_outputs).submit(str(sign)).wait(timeout=PATIENCE)
    sign.touch()
    agent = elsewhere.run(trial)
    assert agent.wait() == 0
    assert agent.ending()["exit_code"] == 0
    assert (agent.folder.parent / "outputs" / "state.json").read_bytes() == b"last"


def test_a_file_changed_during_upload_differs_from_an_unreachable_server(
    elsewhere: RemoteSite, tmp_path: Path
) -> None:
    channel = Channel([elsewhere.front.url], "any", None)
    body = tmp_path / "state.json"
    body.write_bytes(b"x" * 5_000_000)
    sent = FileBody(str(body))
    body.write_bytes(b"short")
    with pytest.raises(Changed, match="shorter"):
        channel.ask("PUT", "/api/v1/agents/none", sent)
    body.unlink()
    with pytest.raises(Changed, match="No such file"):
        channel.ask("PUT", "/api/v1/agents/none", sent)
    channel.close()
