"""Unusual jobs that no Windlass client would send are refused, or run and end."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from harness import PATIENCE
from server_requests import Server

DIGEST = "0" * 64


def job(role: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A request for a trial that does nothing, with some fields replaced."""
    plain = {"executable": {"type": "process", "argv": ["true"]}, **(role or {})}
    return {
        "key": uuid.uuid4().hex,
        "experiment": "odd",
        "spec": {"roles": [plain], "backoff_limit": 0, **spec},
    }


def process(*argv: str) -> dict[str, Any]:
    return {"executable": {"type": "process", "argv": list(argv)}}


NOTHING = {"replicas": 10_000, "resources": {"cpus": 0}}


@pytest.fixture
def server(home: Path) -> Server:
    wl.Client().server_info()
    return Server(home)


@pytest.mark.parametrize(
    "trial",
    [
        job(process()),
        job({"resources": {"cpus": -4}}),
        job({"resources": {"cpus": 1e308}}),
        job({"resources": {"memory": -1}}),
        job({"resources": {"memory": 2**80}}),
        job({"resources": {"accelerator": {"kind": "a100", "count": -1}}}),
        job({"name": "Main"}),
        job({"name": "../main"}),
        job({"name": "main\n"}),
        job({"replicas": -1}),
        job({"replicas": 0}),
        job({"env": {"A=B": "x"}}),
        job({"env": {"A\n": "x"}}),
        job({"env": {"A": "x\0y"}}),
        job(process("true\0")),
        job({"executable": {"type": "function", "payload": f"{DIGEST}\n"}}),
        job({"executable": {"type": "function", "payload": "../../token"}}),
        job({"executable": {"type": "thread"}}),
        job(backend="moon"),
        job(active_deadline=-1),
        job(active_deadline="soon"),
        job(volumes=[{"target": "../../out", "source": "/tmp"}]),
        job(volumes=[{"target": "/etc", "source": "/tmp"}]),
        job(secret_names=["TOKEN"]),
        job(python={"executable": "/no/such/python"}),
        job(priority=10**9),
        # Each one alone would fit. Without a reserve for the others, they would all fit.
        job(
            roles=[{**process("true"), **NOTHING, "name": f"role-{number}"} for number in range(2)]
        ),
        {**job(), "key": "../" * 10 + "ab"},
        {**job(), "key": "0" * 32 + "\n"},
        {**job(), "experiment": ""},
        {**job(), "experiment": "two\nlines"},
        {**job(), "attachments": {DIGEST: "aGVsbG8="}},
        {**job(), "private": {"secrets": {"TOKEN": "x"}}},
        {**job(), "private": {"environ": {"A=B": "x"}}},
        {**job(), "private": {"environ": {"": "x"}}},
    ],
    ids=lambda trial: "",
)
def test_an_invalid_job_is_refused_and_leaves_nothing(
    server: Server, home: Path, trial: dict[str, Any]
) -> None:
    before = [trial.id for trial in wl.list_trials(sort_by="-id", limit=1)]
    status, fault = server.submit(trial)
    assert status == 400, fault
    assert set(fault) <= {"code", "message", "hint"}
    assert [trial.id for trial in wl.list_trials(sort_by="-id", limit=1)] == before
    assert trial["key"] not in {path.name for path in (home / "private").iterdir()}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pod_patch": {"spec": "x"}}, "spec: 'x' is not a mapping"),
        ({"pod_patch": {"metadata": {"labels": ["a"]}}}, "metadata.labels: ['a'] is not a mapping"),
        (
            {"pod_patch": {"containers": [{"name": ["x"]}]}},
            "containers[0].name: ['x'] is not a string",
        ),
        ({"volumes": {"//windlass": "claim:a"}}, "'//windlass' is reserved for Windlass"),
        ({"volumes": {"///": "claim:a"}}, "'///' is not an absolute path"),
        ({"volumes": {"/d": "claim:a", "/d/.": "claim:b"}}, "'/d' and '/d/.' are the same path"),
    ],
    ids=lambda parameter: next(iter(parameter)) if isinstance(parameter, dict) else "",
)
def test_an_invalid_pod_is_refused_before_any_request_to_a_cluster(
    server: Server, options: dict[str, Any], message: str
) -> None:
    status, fault = server.submit(job({"kubernetes": options}, backend="kubernetes"))
    assert (status, fault["code"]) == (400, "invalid_argument"), fault
    assert message in fault["message"], fault


def test_valid_but_unusual_jobs_run_and_end(server: Server) -> None:
    strange = {
        "many": job({"replicas": 3, "resources": {"cpus": 0.1}}),
        "missing": job(process("no-such-program")),
        "empty": job(process("")),
        "folder": job(process("/")),
        "long": job(process("true", "x" * 500_000)),
        "deep": job(code={"workdir": "a/b/c", "root": "/nowhere"}),
        "outside": job(process("pwd"), code={"workdir": "../../../../../.."}),
        "hasty": job(process("true"), active_deadline=1e-9),
        "patient": job(process("true"), active_deadline=1e300),
    }
    ids = {}
    for name, trial in strange.items():
        status, answer = server.submit(trial)
        assert status in (201, 400), (name, answer)
        if status == 201:
            ids[name] = answer["id"]
    ended = {
        name: wl.get_trial(trial_id).wait(timeout=PATIENCE).state for name, trial_id in ids.items()
    }
    assert ended.pop("hasty") in ("FAILED", "SUCCEEDED")  # it may have ended before
    assert ended == {
        "many": "SUCCEEDED",
        "missing": "FAILED",
        "empty": "FAILED",
        "folder": "FAILED",
        "long": "FAILED",
        "deep": "SUCCEEDED",
        "patient": "SUCCEEDED",
    }


def test_one_key_creates_one_trial(server: Server) -> None:
    trial = job()
    first, second = server.submit(trial), server.submit(trial)
    assert first[0] == second[0] == 201
    assert first[1]["id"] == second[1]["id"]


@pytest.mark.parametrize("origin", [-1, 0, 10**9, 2**63, 10**30])
def test_an_unknown_trial_cannot_be_rerun(server: Server, origin: int) -> None:
    """A rerun of itself, or of a future trial, would have an endless lineage."""
    status, fault = server.submit({**job(), "recipe": {"origin_id": origin}})
    assert (status, fault["code"]) == (404, "not_found")
    assert fault["message"] == f"There is no trial {origin} to repeat."


def test_a_repeated_label_is_stored_once(server: Server) -> None:
    status, record = server.submit({**job(), "labels": ["b", "a", "b"]})
    assert (status, record["labels"]) == (201, ["b", "a"])
    assert wl.get_trial(record["id"]).wait().labels == ("b", "a")


@pytest.mark.finding("A15")
@pytest.mark.parametrize(
    "character", ["\x7f", "\x9b", "\u061c", "\u200f", "\u2028", "\u202e", "\u2066"]
)
def test_names_that_control_a_terminal_or_the_direction_of_text_are_refused(
    server: Server, character: str
) -> None:
    name = f"a{character}b"
    for part in ("name", "experiment", "project"):
        assert server.submit({**job(process("true")), part: name})[0] == 400, part
    assert server.submit({**job(process("true")), "labels": [name]})[0] == 400
    with pytest.raises(wl.InvalidArgument, match="not a valid"):
        wl.create_experiment(name)


@pytest.mark.finding("A15")
@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"x": "y" * 70_000}, "The parameter 'x' has 70"),
        ({"x": {"y": ["z"] * 20_000}}, "at most"),
        ({"x" * 70_000: 1}, "at most"),
        ({f"x{n}": "y" * 60_000 for n in range(5)}, "The parameters have 300"),
    ],
)
def test_large_parameters_are_refused_with_advice(
    server: Server, params: dict[str, Any], reason: str
) -> None:
    status, fault = server.submit({**job(process("true")), "params": params})
    assert status == 400
    assert reason in fault["message"] and len(fault["message"]) < 500
    assert "as a file or an artifact" in fault["hint"]
    fitting = {f"x{n}": "y" * 60_000 for n in range(4)}
    assert server.submit({**job(process("true")), "params": fitting})[0] == 201
