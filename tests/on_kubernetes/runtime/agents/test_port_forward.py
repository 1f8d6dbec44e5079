"""Tunnels: agents in pods send requests to a server that they cannot reach."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from harness import PATIENCE, eventually
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.gates import Gate
from on_kubernetes.pods import Namespace
from on_kubernetes.runtime.trials import begun, is_empty, log_lines, restart
from windlass.kube.api.connection import Connection, connect
from windlass.runtimes.kubernetes.agents.port_forward import Tunnels
from windlass.runtimes.kubernetes.objects.manifests import AGENT_PORT

TOKEN = "a-token-of-a-job"

# An agent's use of a connection that the server opens: it sends requests on it.
AGENT = f"""
import http.client, socket, threading

listener = socket.create_server(("127.0.0.1", {AGENT_PORT}))

def ask(sock, number):
    line = b""
    while not line.endswith(b"\\n"):
        piece = sock.recv(1)
        if not piece:
            return  # a way that broke before it was used: another takes its place
        line += piece
    assert line == b"WINDLASS-TUNNEL/1 {TOKEN}\\n", line
    connection = http.client.HTTPConnection("127.0.0.1")
    connection.sock = sock
    for size in (1, 3_000_000):
        connection.request("POST", f"/echo/{{number}}", b"x" * size)
        answer = connection.getresponse()
        body = answer.read()
        # One text: of two threads that print several each, the lines may mix.
        line = "connection %d answer %d %d\\n" % (number, answer.status, len(body))
        print(line, end="", flush=True)
    sock.close()

number = 0
while True:
    sock, _ = listener.accept()
    threading.Thread(target=ask, args=(sock, number)).start()
    number += 1
"""


class _Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    paths: list[str] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.paths.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    """A server on this machine that listens only locally."""
    _Echo.paths = []
    made = ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{made.server_port}"
    made.shutdown()
    made.server_close()


@pytest.fixture
def connection(cluster: Cluster) -> Iterator[Connection]:
    made = connect(config_file=str(cluster.kubeconfig))
    yield made
    made.close()


@pytest.fixture
def tunnels(server: str) -> Iterator[Tunnels]:
    made = Tunnels(lambda: server, 2)
    yield made
    made.close()


def test_an_agent_sends_requests_through_connections_that_the_server_opens(
    namespace: Namespace, connection: Connection, tunnels: Tunnels
) -> None:
    namespace.python("agent", AGENT)
    namespace.wait_running("agent")
    tunnels.keep("uid-1", connection, namespace.name, "agent", TOKEN)
    assert tunnels.has("uid-1")
    # The agent uses and closes each connection, and another replaces it.
    try:
        eventually(lambda: namespace.logs("agent").count(" 200 3000000\n") >= 6, "many asked")
    except AssertionError as error:
        raise AssertionError(f"{error}: {namespace.logs('agent')}") from None
    lines = namespace.logs("agent")
    assert "Traceback" not in lines
    assert lines.count(" 200 1\n") >= 6
    tunnels.drop("uid-1")
    assert not tunnels.has("uid-1")


@pytest.mark.thorough
def test_a_pod_that_does_not_listen_yet_is_reached_once_it_does(
    namespace: Namespace, connection: Connection, tunnels: Tunnels
) -> None:
    tunnels.keep("uid-1", connection, namespace.name, "late", TOKEN)  # no such pod exists yet
    namespace.python("late", "import time; time.sleep(1)\n" + AGENT)
    namespace.wait_running("late")
    eventually(lambda: "answer 200 3000000" in namespace.logs("late"), "it asked")


@pytest.mark.thorough
def test_many_pods_need_one_thread(
    namespace: Namespace, connection: Connection, server: str
) -> None:
    tunnels = Tunnels(lambda: server, 4)
    before = threading.active_count()
    for number in range(100):
        tunnels.keep(f"uid-{number}", connection, namespace.name, "nobody", TOKEN)
    eventually(lambda: threading.active_count() > before, "they are looked after")
    try:
        assert threading.active_count() - before < 50  # asyncio's own threads
    finally:
        tunnels.close()


@pytest.mark.thorough
@pytest.mark.parametrize("names", ["", "nobody-knows-this.invalid"])
def test_agents_of_another_server_are_reached_by_one_that_listens_for_others(
    cluster: Cluster,
    home_with_cluster: Path,
    namespace: Namespace,
    gate: Gate,
    monkeypatch: pytest.MonkeyPatch,
    names: str,
) -> None:
    if names:  # otherwise it would listen locally at first, and its pods have no address
        monkeypatch.setenv("WINDLASS_LISTEN", "127.0.0.1:0")
    monkeypatch.setenv("WINDLASS_NAMES", names)
    trial = begun(namespace, gate)
    monkeypatch.setenv("WINDLASS_LISTEN", "127.0.0.1:0")
    monkeypatch.setenv("WINDLASS_NAMES", "nobody-knows-this.invalid")
    again = restart(home_with_cluster, monkeypatch, cluster.kubeconfig).get_trial(trial.id)
    gate.create("go")
    again.wait(timeout=2 * PATIENCE)
    assert again.state == "SUCCEEDED", again.message
    assert log_lines(again) == ["begun", "done"]
    assert again.restarts == 0
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")
