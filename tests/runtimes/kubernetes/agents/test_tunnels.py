"""Silent agents in pods are reached through a tunnel, also after restarts."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from harness import PATIENCE, eventually
from kube.http_responder import answering
from windlass.home import Home
from windlass.kube.api.connection import connect
from windlass.model.status import ReplicaId
from windlass.runtimes import paths
from windlass.runtimes.kubernetes.agents import tunnels as agent_tunnels
from windlass.runtimes.kubernetes.agents.last_seen import AgentsLastSeen
from windlass.runtimes.kubernetes.agents.port_forward import Tunnels
from windlass.runtimes.kubernetes.agents.tunnels import SILENT, UNHEARD, AgentTunnels
from windlass.runtimes.kubernetes.attempts.index import AttemptIndex
from windlass.runtimes.kubernetes.cluster_view import ClusterView
from windlass.runtimes.kubernetes.job_records import JobRecords
from windlass.runtimes.kubernetes.objects import names as pod_names
from windlass.runtimes.kubernetes.objects.manifests import JobRecord
from windlass.runtimes.kubernetes.retry_queue import RetryQueue
from windlass.runtimes.kubernetes.server_context import KubernetesContext

UID = "0123456789abcdef" * 2
FIRST = ReplicaId("main", 0, 1)
POD = "pod-1"


class Listing(BaseHTTPRequestHandler):
    """A cluster that lists some pods, sends no changes, and refuses connections to them."""

    protocol_version = "HTTP/1.1"
    pods: list[dict[str, Any]]
    is_over: threading.Event

    def do_GET(self) -> None:
        is_watch, is_list = "watch=" in self.path, "/pods?" in self.path
        listed = {"items": self.pods, "metadata": {"resourceVersion": "9"}}
        body = json.dumps(listed).encode() if is_list and not is_watch else b""
        self.send_response(200 if is_list else 403)
        self.send_header("Content-Type", "application/json")
        if not is_watch:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        if is_watch:
            self.is_over.wait(PATIENCE)
            self.close_connection = True


class World:
    """One attempt in a pod, a server with an address, and a manual clock."""

    def __init__(self, home: Path, cluster: type[Listing], stack: ExitStack) -> None:
        self.passed = 1000.0
        self.last_seen = AgentsLastSeen(lambda: self.passed)
        self.urls = ["http://workstation:8080"]
        self.folder = paths.attempt_dir(home, 1, FIRST)
        self.folder.mkdir(parents=True)
        (self.folder / paths.LAUNCH).write_text("{}")
        claims = JobRecords(home)
        base = pod_names.base_of(1, UID)
        self.claim = JobRecord(
            uid=UID, trial_id=1, namespace="lab", base=base, home=claims.identity
        )
        claims.keep(self.claim)
        cluster.pods.append(self.pod())
        around = KubernetesContext(
            connect=lambda: connect(home=Home(home)),
            worker=bytes,
            token_for=lambda _uid: "t",
            urls=lambda: self.urls,
            url=lambda: "http://127.0.0.1:1",
            last_seen=self.last_seen,
            clock=lambda: self.passed,
        )
        self.errands = RetryQueue()
        stack.callback(self.errands.close)
        self.tunnels = Tunnels(around.url, 1)
        stack.callback(self.tunnels.close)
        self.sight = ClusterView(
            around.connect, around.settings, claims, self.errands,
            on_pod=lambda _before, _after: None, on_login=lambda: None, notify=lambda _uid: None,
        )  # fmt: skip
        stack.callback(self.sight.close)
        index = AttemptIndex(home)
        self.reaching = AgentTunnels(around, self.tunnels, claims, index, self.errands, self.sight)
        assert self.sight.begin_watch("lab").synced.wait(PATIENCE)

    def pod(self, phase: str = "Running") -> dict[str, Any]:
        labels = {
            **self.claim.labels,
            **pod_names.replica_labels("main", 0),
            pod_names.ATTEMPT: "1",
        }
        running = {"name": "main", "state": {"running": {}}}
        return {
            "metadata": {
                "uid": POD,
                "name": pod_names.pod_name(self.claim.base, FIRST),
                "namespace": "lab",
                "resourceVersion": "5",
                "labels": labels,
            },
            "spec": {},
            "status": {"phase": phase, "containerStatuses": [running]},
        }

    def begin(self) -> None:
        """An agent has reported the start of its program to some server."""
        (self.folder / paths.TAKEN_UP).write_text("{}")
        (self.folder / paths.STATE).write_text(json.dumps({"stage": "running"}))

    def see(self, phase: str = "Running", *, is_there: bool = True) -> None:
        self.reaching.observe(UID, self.pod(phase), is_there=is_there)

    def look_after(self, seconds: float) -> bool:
        """Return whether a tunnel exists at the reconcile after this time."""
        self.passed += seconds
        self.reaching.check(UID, self.pod())
        return self.is_reached

    @property
    def is_reached(self) -> bool:
        return self.tunnels.has(POD)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with ExitStack() as stack:
        cluster = stack.enter_context(answering(Listing, tmp_path, monkeypatch))
        cluster.pods = []
        yield World(tmp_path / "home", cluster, stack)


def test_a_new_silent_agent_gets_a_tunnel_soon(world: World) -> None:
    world.see()
    assert not world.look_after(UNHEARD - 1)
    assert world.look_after(1)


def test_an_agent_of_another_server_gets_a_tunnel_if_it_does_not_connect(world: World) -> None:
    world.begin()
    world.see()
    assert not world.look_after(SILENT - 1)
    assert world.look_after(1)


def test_a_connected_agent_gets_no_tunnel_until_it_is_silent(world: World) -> None:
    world.begin()
    world.see()
    for _ in range(10):
        world.last_seen.note(UID, FIRST)
        assert not world.look_after(25)
    assert not world.look_after(SILENT - 26)
    assert world.look_after(1)


def test_contact_of_another_attempt_does_not_count(world: World) -> None:
    world.begin()
    world.see()
    world.passed += SILENT - 1
    world.last_seen.note(UID, ReplicaId("main", 0, 2))
    world.last_seen.note("another", FIRST)
    assert world.look_after(1)


def test_contact_through_a_tunnel_does_not_close_the_tunnel(world: World) -> None:
    world.begin()
    world.see()
    assert world.look_after(SILENT)
    for _ in range(10):
        world.last_seen.note(UID, FIRST)
        world.see()
        assert world.look_after(25)


@pytest.mark.thorough
def test_an_agent_without_another_route_gets_a_tunnel_right_after_a_login(world: World) -> None:
    world.begin()
    world.see()
    assert world.look_after(SILENT)
    world.last_seen.note(UID, FIRST)
    world.tunnels.drop_all()
    assert not world.is_reached
    world.see()
    assert world.is_reached


def test_an_agent_on_a_briefly_unresponsive_node_gets_a_tunnel_again_at_once(world: World) -> None:
    world.begin()
    world.see()
    assert world.look_after(SILENT)
    world.last_seen.note(UID, FIRST)
    world.see("Unknown")
    assert not world.is_reached
    world.see()
    assert world.is_reached


def test_checks_of_a_running_attempt_repeat_by_themselves(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_tunnels, "UNHEARD", 0.01)
    monkeypatch.setattr(agent_tunnels, "SILENT", 0.01)
    world.begin()
    world.see()
    world.passed += 1
    eventually(lambda: world.is_reached, "it is reached")
    world.tunnels.drop_all()
    eventually(lambda: world.is_reached, "it is reached again, though nothing was seen of it")


def test_a_deleted_attempt_is_not_checked_again(world: World) -> None:
    world.begin()
    world.see()
    assert world.look_after(SILENT)
    watcher = world.sight.now("lab")
    assert watcher is not None
    watcher.observe_deleted(world.pod())
    world.errands.forget(("unheard", POD))
    assert not world.look_after(SILENT)
    assert not world.errands.is_wanted(("unheard", POD))


def test_a_finished_attempt_needs_no_tunnel(world: World) -> None:
    world.see()
    (world.folder / paths.EXIT).write_text("{}")
    assert not world.look_after(SILENT)


def test_a_server_without_an_address_opens_tunnels_at_once(world: World) -> None:
    world.urls = []
    world.see()
    assert world.is_reached
    world.see(is_there=False)
    assert not world.is_reached
