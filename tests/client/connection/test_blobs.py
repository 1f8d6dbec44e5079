"""Many blobs in one response: as a pack, within limits, and never silently fewer."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

import windlass as wl
from server_requests import API, Server
from stored_trials import upload
from windlass.client.client import Client
from windlass.client.connection import blobs
from windlass.client.connection.blobs import fetch_blobs, fetch_lists, read_pack
from windlass.client.connection.transport import Transport
from windlass.model.requests import MOST_FETCHED


@pytest.fixture
def transport(home: Path) -> Transport:
    return Client().transport


def test_blobs_arrive_in_one_response_without_missing_ones(
    transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = [
        b"",
        b"small",
        os.urandom(3_000_001),
        b"x" * (1 << 20),
        *(b"%d" % n for n in range(500)),
    ]
    digests = upload(*data)
    paths: list[str] = []
    fetch = Transport.fetch

    def counted(self: Transport, method: str, path: str, **rest: object) -> bytes:
        paths.append(path)
        return fetch(self, method, path, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Transport, "fetch", counted)
    fetched = fetch_blobs(transport, [*digests, "0" * 64, *digests])
    assert fetched == dict(zip(digests, data, strict=True))
    assert paths == ["/blobs/fetch"]
    assert fetch_blobs(transport, ["0" * 64]) == {}


def test_small_lists_need_one_request(transport: Transport, home: Path) -> None:
    [digest] = upload(b"numpy==2.1\n" + os.urandom(8).hex().encode())
    first = fetch_lists(transport, [digest])
    (home / "blobs" / digest[:2] / digest).unlink()
    assert fetch_lists(transport, [digest]) == first
    assert len(blobs._kept) <= 64


def test_requests_are_limited_in_size_and_form(transport: Transport, home: Path) -> None:
    transport.ask("GET", "/server", dict)  # the server runs
    server = Server(home)

    def status(body: object) -> int:
        sent = json.dumps(body).encode()
        return server.ask("POST", f"{API}/blobs/fetch", sent, Content_Type="application/json")[0]

    assert status({"digests": ["0" * 64] * MOST_FETCHED}) == 200
    assert status({"digests": ["0" * 64] * (MOST_FETCHED + 1)}) == 400
    assert status({"digests": []}) == 400
    assert status({"digests": ["../../token"]}) == 400
    assert status({"digests": ["0" * 63 + "\n"]}) == 400
    assert status({}) == 400
    code, _ = server.ask("POST", f"{API}/blobs/fetch", b"{}", token=None)
    assert code == 401


@pytest.mark.finding("A11")
def test_a_damaged_blob_is_not_sent_and_set_aside(transport: Transport, home: Path) -> None:
    data = os.urandom(1000)
    [digest] = upload(data)
    place = home / "blobs" / digest[:2] / digest
    place.chmod(0o600)
    place.write_bytes(data[:-1])
    assert fetch_blobs(transport, [digest]) == {}
    assert (home / "blobs" / f".damaged-{digest}").read_bytes() == data[:-1]


@pytest.mark.parametrize("cut", [1, 31, 32, 39, 40, 44])
def test_a_pack_that_is_truncated_anywhere_is_refused(cut: int) -> None:
    digest = hashlib.sha256(b"hello")
    pack = digest.digest() + (5).to_bytes(8, "big") + b"hello"
    with pytest.raises(wl.ServerError, match="is damaged"):
        list(read_pack(pack + pack[:cut], [digest.hexdigest()]))
