"""A request for several trials creates all of them or none, and can be repeated."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from harness import PATIENCE, kill_server
from server_requests import API, Server


@pytest.fixture
def server(fresh_home: Path) -> Server:
    wl.Client().server_info()
    return Server(fresh_home)


def trial(*argv: str, **fields: Any) -> dict[str, Any]:
    role = {"executable": {"type": "process", "argv": list(argv)}, "resources": {"cpus": 0.1}}
    spec = {"roles": [role], "backoff_limit": 0, **fields.pop("spec", {})}
    return {"key": uuid.uuid4().hex, "experiment": "batch", "spec": spec, **fields}


def post(server: Server, body: dict[str, Any]) -> tuple[int, Any]:
    content = json.dumps(body).encode()
    return server.ask("POST", f"{API}/trials/batch", content, Content_Type="application/json")


def count() -> int:
    return len(list(wl.Client().list_trials()))


def test_a_repeated_request_returns_the_same_trials(server: Server) -> None:
    body = {"trials": [trial("true") for _ in range(3)]}
    first, again = (post(server, body) for _ in range(2))
    ids = [record["id"] for record in first[1]]
    assert len(set(ids)) == 3
    assert ids == [record["id"] for record in again[1]]
    assert count() == 3


@pytest.mark.parametrize(
    ("flawed", "why"),
    [
        (trial("true", spec={"secret_names": ["TOKEN"]}), "Trial 2 of 3: secrets and their names"),
        (trial("true", params={"x": "y" * 70_000}), "Trial 2 of 3: The parameter 'x'"),
        (trial("true", kind="external"), "Trial 2 of 3: The kind 'external'"),
        (trial("true", private={"umask": 0}), "Trial 2 of 3: Attachments and private data"),
        (trial("true", parent_id=99), "There is no trial 99"),
    ],
    ids=["secrets", "params", "kind", "private", "parent"],
)
def test_one_invalid_trial_refuses_the_whole_request(
    server: Server, fresh_home: Path, flawed: dict[str, Any], why: str
) -> None:
    body = {"trials": [trial("true"), flawed, trial("true")]}
    status, fault = post(server, body)
    assert 400 <= status < 500, fault
    assert why in fault["message"]
    assert count() == 0
    assert not list((fresh_home / "private").iterdir())
    # The refused trials hold no capacity.
    body["trials"][1] = trial("true")
    assert post(server, body)[0] == 201
    for created in wl.Client().list_trials():
        assert created.wait(timeout=PATIENCE).state == "SUCCEEDED"


def test_trials_of_an_accepted_request_survive_a_kill_with_their_arguments(
    fresh_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_CPUS", "1")

    @wl.run(cpus=1)
    def double(number: int) -> int:
        return 2 * number

    exp = wl.create_experiment("killed")
    trials = exp.add_many(double, [{"number": number} for number in range(4)])
    kill_server(fresh_home)
    assert [trial.result(timeout=PATIENCE) for trial in trials] == [0, 2, 4, 6]
