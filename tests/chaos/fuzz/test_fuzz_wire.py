"""The wire format: every struct survives a round trip, and anything else is refused."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from chaos_seed import Chaos
from fuzz_examples import anything_but, examine, mutated, mutated_json, within
from hypothesis import strategies as st

import windlass as wl
from harness import stop_trials
from server_requests import API, Server
from windlass.client.connection.transport import decode
from windlass.model.errors import InvalidArgument
from windlass.model.job import JobSpec
from windlass.model.logs import LogPage, LogPart
from windlass.model.records import ErrorInfo, Provenance, ResultInfo, TrialRecord, TrialState
from windlass.model.requests import (
    PROOF_HEADER,
    VERSION_HEADER,
    CreateTrial,
    Fault,
    ServerInfo,
    StreamEnd,
    TrialPage,
)
from windlass.model.server_proof import prove
from windlass.model.status import Condition, ConditionType, JobStatus, ReplicaHistory
from windlass.server.api.blobs import _Intake
from windlass.server.stores.blobs.files import FileBlobStore
from windlass.server.web.error_responses import to_fault

DIGEST = "ab" * 32
TOKEN = "t"
SPEC: dict[str, Any] = {
    "roles": [
        {
            "executable": {"type": "process", "argv": ["true", "é\n"]},
            "name": "main",
            "resources": {"cpus": 0.5, "memory": 1},
            "env": {"A": "b"},
            "restart_policy": "Never",
        }
    ],
    "code": {"workdir": ".", "import_paths": ["src"], "root": "/nowhere"},
    "python": {"extra_paths": ["/nowhere/lib"]},
    "backoff_limit": 0,
    "active_deadline": 60,
    "priority": 1,
}
REQUEST: dict[str, Any] = {
    "key": "0" * 32, "experiment": "fuzz", "spec": SPEC, "name": "n", "project": "p",
    "params": {"lr": 0.1, "layers": [1, 2]}, "provenance": {"user": "ada", "packages": None},
}  # fmt: skip
RECORD = TrialRecord(
    id=1, uid="0" * 32, name="n", experiment="e", experiment_id=1, project="p",
    state=TrialState.FAILED, spec=msgspec.convert(SPEC, JobSpec), params={"lr": 0.1},
    error=ErrorInfo(type="ValueError", message="é", traceback="…", pickle=DIGEST),
    result=ResultInfo(digest=DIGEST, size=3, text="[1]"), provenance=Provenance(user="ada"),
    conditions=(Condition(type=ConditionType.FAILED, status=True),),
)  # fmt: skip
STATUS = JobStatus(replicas=(ReplicaHistory(role="main", index=0),), devices={"main-0": (1,)})
PART = LogPart(time=1.5, stream="stdout", text="é")
EXAMPLES: list[msgspec.Struct] = [
    msgspec.convert(REQUEST, CreateTrial),
    RECORD,
    STATUS,
    TrialPage(items=(RECORD,), next="W10"),
    LogPage(items=(PART,), next="main-0.1:5"),
    StreamEnd(trial=RECORD, result=b"\x80\x04", error=b"\0"),
    Fault(code="conflict", message="m", missing=(DIGEST,)),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)
def test_bytes_become_a_struct_that_survives_a_round_trip_or_a_windlass_error(
    chaos: Chaos, example: msgspec.Struct
) -> None:
    kind = type(example)
    valid = msgspec.json.encode(example)
    assert msgspec.json.decode(valid, type=kind) == example

    def check(data: bytes) -> None:
        try:
            value = msgspec.json.decode(data, type=kind)
        except Exception as error:  # in any case: the result that both ends compute
            assert to_fault(error, Path.cwd()).code == "invalid_argument", repr(error)
            with pytest.raises(wl.ServerError, match="not from Windlass"):
                decode(data, kind)
        else:
            again = msgspec.json.encode(value)
            assert msgspec.json.encode(msgspec.json.decode(again, type=kind)) == again

    examine(chaos, check, anything_but(valid), short=60)


def test_mutated_valid_requests_are_refused_or_run(chaos: Chaos, home: Path) -> None:
    wl.Client().server_info()
    server = Server(home)
    seen: set[int] = set()

    def check(data: bytes) -> None:
        kind = {"Content_Type": "application/json"}
        status, answer = server.ask("POST", f"{API}/trials", data, **kind)
        assert status in (201, 400, 409), (status, answer)
        seen.add(status)
        if status != 201:
            assert set(answer) <= {"code", "message", "hint", "missing"}

    valid = json.dumps(REQUEST).encode()
    examine(chaos, check, mutated_json(valid) | mutated(valid), short=25, long=1500)
    stop_trials(home)
    assert 400 in seen
    assert "Traceback" not in (home / "server.log").read_text()


def test_a_pack_of_blobs_in_any_chunks_is_accepted_whole_or_refused(
    chaos: Chaos, tmp_path: Path
) -> None:
    store = FileBlobStore(tmp_path / "blobs")
    contents = [b"", b"hello", b"x" * 100]
    valid = b"".join(
        hashlib.sha256(content).digest() + len(content).to_bytes(8, "big") + content
        for content in contents
    )

    def check(pack: bytes, cuts: list[int]) -> None:
        intake = _Intake(store)
        edges = sorted({0, len(pack), *(cut % (len(pack) + 1) for cut in cuts)})
        is_refused = False
        try:
            for start, end in itertools.pairwise(edges):
                intake.feed(pack[start:end])
        except InvalidArgument:
            is_refused = True
        finally:
            intake.close()
        if pack == valid:
            assert (intake.stored, intake.is_torn, is_refused) == (3, False, False)
        for path in (tmp_path / "blobs").iterdir():
            assert not path.name.startswith("."), "nothing half written is left"
            for blob in path.iterdir():
                assert hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name

    packs = st.just(valid) | mutated(valid) | st.binary(max_size=200)
    examine(chaos, check, packs, st.lists(st.integers(0, 400), max_size=6))


# A foreign server


class Stranger:
    """A foreign server that sends the same response to every client.

    It knows the token and proves that: otherwise the client would send no request.
    """

    def __init__(self) -> None:
        self.says = b""
        self.proves = True
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                connection.settimeout(5)
                challenge = re.search(rb"Windlass-Challenge: (\w+)", connection.recv(65536))
                if challenge is not None and self.proves:
                    connection.sendall(proof_of(challenge[1].decode()))
                    connection.recv(65536)
                connection.sendall(self.says)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    stranger = Stranger()
    yield stranger
    stranger.close()


def proof_of(challenge: str) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{VERSION_HEADER}: 1\r\n"
    return f"{head}{PROOF_HEADER}: {prove(TOKEN, challenge)}\r\n\r\n{{}}".encode()


def answer(body: bytes, kind: str = "application/json", status: str = "200 OK") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body


def test_an_arbitrary_response_raises_only_windlass_errors(
    chaos: Chaos, stranger: Stranger
) -> None:
    client = wl.Client(stranger.url, token=TOKEN)
    record = msgspec.json.encode(RECORD)
    page = b'{"items":[' + record + b"]}"
    operations = [
        client.server_info,
        lambda: client.get_trial(1),
        lambda: list(client.list_trials()),
        lambda: list(client.list_experiments()),
    ]

    def check(body: bytes, which: int, proves: bool) -> None:
        stranger.says, stranger.proves = body, proves
        with contextlib.suppress(wl.WindlassError):
            operations[which % len(operations)]()

    info = msgspec.json.encode(
        ServerInfo(version="1", pid=1, home="/", started=1.0, capacity={"cpus": 1, "memory": 1})  # type: ignore[arg-type]
    )
    bodies = anything_but(record) | mutated_json(page) | mutated(info)
    response_bodies = bodies.map(answer) | mutated(answer(page)) | st.binary(max_size=100)
    examine(chaos, check, response_bodies, st.integers(0, 3), st.booleans(), short=60, long=1500)


@pytest.mark.parametrize(
    "body",
    [
        answer(b"<html>hello</html>", "text/html"),
        answer(b"event: end\ndata: {}\n\n", "text/event-stream"),
        answer(b"event: trial\ndata: \xff\n\n", "text/event-stream"),
        answer(b"event: \xff\ndata: [[[[\n\n", "text/event-stream"),
    ],
    ids=["page", "end", "bytes", "name"],
)
def test_following_a_foreign_stream_ends_with_an_error(stranger: Stranger, body: bytes) -> None:
    client = wl.Client(stranger.url, token=TOKEN)
    stranger.says = answer(msgspec.json.encode(msgspec.structs.replace(RECORD, state="RUNNING")))
    trial = client.get_trial(1)
    stranger.says = body
    with within(30), pytest.raises(wl.ServerError, match="not from Windlass"):
        trial.wait()
