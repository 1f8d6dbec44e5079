"""Every operation of the OpenAPI document of a real server, with all kinds of valid requests.

Every response arrives in time, is not an internal error, and conforms to the document.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
import requests
import schemathesis
from chaos_seed import Chaos
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import Case
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode

import windlass as wl
from harness import stop_trials
from server_requests import API, Server
from windlass.model.job import Assignment, Job
from windlass.model.requests import StreamEnd
from windlass.model.status import ReplicaId
from windlass.runtimes.remote_attempt import ask_for
from windlass.server.web.agent_token import agent_token

_LIMIT = 30.0  # seconds for a response; a log is followed for ten
_GROWTH = 150 << 20
_CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


def _checks(answer: requests.Response) -> list[Any]:
    """All checks; a disk too small for the upload of a request is not an error of the server."""
    if answer.status_code == 507:
        return [check for check in _CHECKS if check is not not_a_server_error]
    return _CHECKS


_OF_AGENTS = (
    ("POST", "begin"),
    ("POST", "ship"),
    ("GET", "orders"),
    ("GET", "room"),
    ("PUT", "files/{name}"),
    ("PUT", "outputs"),
    ("POST", "missing"),
    ("POST", "blobs"),
    ("PUT", "blobs/{digest}"),
    ("GET", "blobs/{digest}"),
    ("POST", "checkpoints"),
    ("POST", "parts"),
    ("POST", "end"),
    ("GET", "package"),
)


class Asker:
    """Sends requests that the document allows, half of them about existing objects."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.server = Server(home)
        status, document = self.server.ask("GET", f"{API}/schema/openapi.json")
        assert status == 200
        schema = schemathesis.openapi.from_dict(document)
        api_operations = [
            result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)
        ]
        self.operations = {
            f"{operation.method.upper()} {operation.path}": operation
            for operation in api_operations
        }
        self._session = requests.Session()
        pid = json.loads((home / "server.json").read_text())["pid"]
        self._process = psutil.Process(pid)
        self.begin()

    def begin(self) -> None:
        """Reset the counts of requests and memory."""
        self.requests = 0
        self._size = self._process.memory_info().rss

    def ask(self, case: Case, *, streamed: bool = False) -> None:
        headers = {"Authorization": f"Bearer {self._token_for(case)}"}
        if streamed:
            headers["Accept"] = "text/event-stream"
        arguments = case.as_transport_kwargs(base_url=self.server.url, headers=headers)
        answer = self._session.request(**arguments, stream=True, timeout=_LIMIT)
        with answer:
            if answer.headers.get("Content-Type", "").startswith("text/event-stream"):
                self._read_stream(answer)
                assert answer.status_code == 200
            else:
                case.validate_response(answer, checks=_checks(answer))
        self.requests += 1

    def _token_for(self, case: Case) -> str:
        """Return the token of an agent, which belongs to its trial."""
        uid = (case.path_parameters or {}).get("uid")
        return self.server.token if uid is None else agent_token(self.server.token, str(uid))

    def _read_stream(self, answer: requests.Response) -> None:
        """Read one event, which is available at once. Later events depend on the trial."""
        data = b""
        for chunk in answer.iter_content(None):
            data += chunk
            if b"\n\n" in data:
                break
        first, *others = data.partition(b"\n\n")[0].split(b"\n")
        assert first.startswith((b"event: ", b"id: ")), data[:200]
        assert all(line.startswith((b"event: ", b"data: ")) for line in others), data[:200]

    def assert_well(self) -> None:
        assert self._process.is_running()
        assert self.server.ask("GET", f"{API}/health")[0] == 200
        assert self._process.memory_info().rss - self._size < _GROWTH
        log = (self.home / "server.log").read_text()
        assert "Traceback" not in log, log[-5000:]


@pytest.fixture(scope="module")
def filled_home(module_home: Path) -> Iterator[Path]:
    """The home of these tests, filled with some objects."""

    @wl.run(cpus=0.1)
    def work(fail: bool) -> list[int]:
        print("a line\nand another, \N{SNOWMAN}")
        wl.report(1, loss=0.5)
        (wl.output_dir() / "kept.txt").write_text("kept")
        wl.save_checkpoint(wl.output_dir(), step=1)
        if fail:
            raise ValueError("as asked")
        return [1, 2, 3]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WINDLASS_HOME", str(module_home))
        patch.delenv("WINDLASS_SERVER", raising=False)
        work(False)
        with pytest.raises(ValueError, match="as asked"):
            work(True)
        [checkpoint] = wl.get_trial(1).list_checkpoints()
        model = wl.create_model("net")
        model.register_version(checkpoint)
        model.set_alias("production", 1)
        wl.create_template("large", cpus=2)
        wl.get_workspace("default").create_project("vision")
        wl.run_command(["true"]).wait()
        wl.open_shell(["cat"])
    yield module_home


@pytest.fixture(scope="module")
def shared_asker(filled_home: Path) -> Asker:
    """Read the large document only once."""
    return Asker(filled_home)


@pytest.fixture
def asker(shared_asker: Asker, home: Path) -> Iterator[Asker]:
    shared_asker.begin()
    yield shared_asker
    stop_trials(home)
    shared_asker.assert_well()


def operations() -> list[str]:
    """List all operations. A new operation fails the test below until it is listed."""
    return [
        f"GET {API}/health", f"GET {API}/server", f"GET {API}/trials", f"POST {API}/trials",
        f"POST {API}/trials/batch",
        f"GET {API}/trials/{{trial_id}}", f"GET {API}/trials/{{trial_id}}/stream",
        f"GET {API}/trials/{{trial_id}}/logs", f"GET {API}/trials/{{trial_id}}/events",
        f"GET {API}/trials/{{trial_id}}/result", f"GET {API}/trials/{{trial_id}}/error",
        f"POST {API}/trials/{{trial_id}}/stop", f"POST {API}/trials/{{trial_id}}/suspend",
        f"POST {API}/trials/{{trial_id}}/resume", f"POST {API}/trials/{{trial_id}}/scale",
        f"POST {API}/metrics",
        f"POST {API}/trials/{{trial_id}}/ask-to-stop",
        f"GET {API}/trials/{{trial_id}}/artifacts",
        f"POST {API}/trials/{{trial_id}}/artifacts/fetch",
        f"GET {API}/experiments", f"POST {API}/experiments",
        f"PATCH {API}/experiments/{{experiment_id}}",
        f"GET {API}/experiments/{{experiment_id}}/stream",
        f"POST {API}/experiments/{{experiment_id}}/stop",
        f"GET {API}/experiments/{{experiment_id}}/hold",
        f"DELETE {API}/experiments/{{experiment_id}}/hold",
        f"POST {API}/trials/{{trial_id}}/built", f"PATCH {API}/trials/{{trial_id}}",
        f"GET {API}/experiments/{{name}}", f"POST {API}/snapshots", f"POST {API}/blobs",
        f"GET {API}/blobs", f"POST {API}/blobs/fetch", f"GET {API}/blobs/{{digest}}",
        f"GET {API}/workspaces",
        f"POST {API}/workspaces",
        f"GET {API}/workspaces/{{workspace_id}}",
        f"PATCH {API}/workspaces/{{workspace_id}}",
        f"DELETE {API}/workspaces/{{workspace_id}}",
        f"GET {API}/workspaces/named/{{name}}",
        f"GET {API}/projects",
        f"POST {API}/projects",
        f"GET {API}/projects/{{project_id}}",
        f"PATCH {API}/projects/{{project_id}}",
        f"DELETE {API}/projects/{{project_id}}",
        f"GET {API}/projects/named/{{name}}",
        f"GET {API}/models",
        f"POST {API}/models",
        f"GET {API}/models/{{model_id}}",
        f"PATCH {API}/models/{{model_id}}",
        f"DELETE {API}/models/{{model_id}}",
        f"GET {API}/models/named/{{name}}",
        f"GET {API}/templates",
        f"POST {API}/templates",
        f"GET {API}/templates/{{template_id}}",
        f"PATCH {API}/templates/{{template_id}}",
        f"DELETE {API}/templates/{{template_id}}",
        f"GET {API}/templates/named/{{name}}",
        f"GET {API}/models/{{model_id}}/versions",
        f"POST {API}/models/{{model_id}}/versions",
        f"GET {API}/models/{{model_id}}/versions/{{which}}",
        f"PATCH {API}/models/{{model_id}}/versions/{{version}}",
        f"DELETE {API}/models/{{model_id}}/versions/{{version}}",
        f"PUT {API}/models/{{model_id}}/aliases/{{alias}}",
        f"DELETE {API}/models/{{model_id}}/aliases/{{alias}}",
        f"GET {API}/checkpoints",
        f"GET {API}/checkpoints/{{checkpoint}}",
        f"PATCH {API}/checkpoints/{{checkpoint}}",
        f"DELETE {API}/checkpoints/{{checkpoint}}",
        f"GET {API}/logs",
        f"GET {API}/queue",
        f"POST {API}/trials/{{trial_id}}/priority",
        f"POST {API}/trials/{{trial_id}}/move",
        f"GET {API}/trials/{{trial_id}}/tasks",
        f"GET {API}/shells/{{trial_id}}/output",
        f"POST {API}/shells/{{trial_id}}/input",
        f"POST {API}/shells/{{trial_id}}/size",
        *(f"{method} {API}/agents/{{uid}}/{{role}}/{{index}}/{{attempt}}/{what}"
          for method, what in _OF_AGENTS),
        f"POST {API}/gc", f"POST {API}/server/adopt", f"GET {API}/kubernetes/check",
        f"POST {API}/kubernetes/manifests",
        f"DELETE {API}/trials/{{trial_id}}",
        f"DELETE {API}/experiments/{{experiment_id}}",
    ]  # fmt: skip


def test_these_tests_cover_every_operation_of_the_schema(asker: Asker) -> None:
    assert asker.operations.keys() == set(operations())


# One of each kind, for `make test`: about one object and about many, with and without a body, a
# stream, and operations of agents.
SAMPLE = {
    f"GET {API}/trials",
    f"GET {API}/trials/{{trial_id}}/stream",
    f"GET {API}/trials/{{trial_id}}/logs",
    f"POST {API}/experiments",
    f"PATCH {API}/projects/{{project_id}}",
    f"PUT {API}/models/{{model_id}}/aliases/{{alias}}",
    f"DELETE {API}/checkpoints/{{checkpoint}}",
    f"POST {API}/agents/{{uid}}/{{role}}/{{index}}/{{attempt}}/ship",
}


@pytest.mark.parametrize(
    "operation",
    [
        operation if operation in SAMPLE else pytest.param(operation, marks=pytest.mark.thorough)
        for operation in operations()
    ],
)
def test_every_response_conforms_to_the_schema(chaos: Chaos, asker: Asker, operation: str) -> None:
    operation_object = asker.operations[operation]
    right = operation_object.as_strategy(generation_mode=GenerationMode.POSITIVE)
    cases = right
    if operation_object.query.items or operation_object.body.items:
        cases = right | operation_object.as_strategy(generation_mode=GenerationMode.NEGATIVE)
    names = _known_names(asker)

    def check(case: Case, choices: st.DataObject, streamed: bool) -> None:
        _tame(case)
        for name, values in names.items():
            if case.path_parameters and name in case.path_parameters:
                value = choices.draw(st.none() | st.sampled_from(values))
                if value is not None:
                    case.path_parameters[name] = value
        asker.ask(case, streamed=streamed)

    run = given(cases, st.data(), st.booleans())(check)
    settings(
        max_examples=chaos.examples(12, 600),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        # A server is not a pure function: the same request gets another response the second time.
        phases=[Phase.generate],
    )(seed(chaos.seed)(run))()
    assert asker.requests
    asker.assert_well()


def _known_names(asker: Asker) -> dict[str, list[Any]]:
    """Return the names of objects that exist on the server."""
    trials = [*wl.list_trials(), *wl.list_commands(), *wl.list_shells()]
    for trial in wl.list_trials():  # each has another attempt, which runs on an agent
        record = trial.record
        job = Job(uid=record.uid, trial_id=record.id, spec=record.spec)
        if trial.is_finished:
            ask_for(asker.home, job, ReplicaId("main", 0, 2), Assignment())
    blobs = [path.name for path in asker.home.glob("blobs/*/*")]
    return {
        "trial_id": [trial.id for trial in trials],
        "digest": blobs,
        "name": ["work", "default", "default/vision", "net", "large"],
        "experiment_id": [experiment.id for experiment in wl.list_experiments()],
        "checkpoint": [checkpoint.uid for checkpoint in wl.list_checkpoints()] or [1],
        **{f"{noun}_id": [1] for noun in ("workspace", "project", "model", "template")},
        "version": [1],
        "uid": [trial.record.uid for trial in trials] or ["0" * 32],
        "role": ["main"],
        "index": [0],
        "attempt": [2, 1],
        "which": ["1", "latest", "production"],
        "alias": ["production", "1"],
    }


def _tame(case: Case) -> None:
    """Limit the replicas of a trial, so that no request starts ten thousand processes."""
    sizes = case.body.get("replicas") if isinstance(case.body, dict) else None
    for name, size in sizes.items() if isinstance(sizes, dict) else []:
        if isinstance(size, int):
            sizes[name] = min(size, 2)
    spec = case.body.get("spec") if isinstance(case.body, dict) else None
    roles = spec.get("roles") if isinstance(spec, dict) else None
    for role in roles if isinstance(roles, list) else []:
        if isinstance(role, dict) and isinstance(role.get("replicas"), int):
            role["replicas"] = min(role["replicas"], 2)


def test_the_stream_of_a_finished_trial_ends(asker: Asker) -> None:
    for trial in wl.list_trials():
        status, content = asker.server.ask("GET", f"{API}/trials/{trial.id}/stream")
        assert status == 200
        last = content.rstrip().rpartition(b"\n\n")[2]
        assert last.startswith(b"event: end\ndata: ")
        end = msgspec.json.decode(last.partition(b"data: ")[2], type=StreamEnd)
        assert end.trial.id == trial.id
