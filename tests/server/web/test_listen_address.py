"""A server for other machines: its names, its token, in the foreground until it is stopped."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from harness import BIN, PATIENCE, Project
from windlass.model.errors import InvalidArgument
from windlass.server.web.listen_address import Listening, read_listening

NAME = "lab.example"


@pytest.fixture
def served(fresh_home: Path) -> Iterator[int]:
    """The port of a server in the foreground."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    argv = [BIN / "windlass", "server", "run", "--listen", f"127.0.0.1:{port}", "--name", NAME]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(5) == b"ready"
        yield port
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def status(port: int, host: str, token: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    headers = {"Host": host, "Authorization": f"Bearer {token}"}
    connection.request("GET", "/api/v1/trials", headers=headers)
    answer = connection.getresponse().status
    connection.close()
    return answer


def test_a_server_in_the_foreground_answers_only_to_its_names(
    served: int, fresh_home: Path
) -> None:
    token = (fresh_home / "token").read_text().strip()
    assert status(served, f"{NAME}:{served}", token) == 200
    assert status(served, "127.0.0.1", token) == 200
    assert status(served, "evil.example", token) == 403
    assert status(served, NAME, "guessed") == 401


def test_an_invalid_address_is_refused_with_a_valid_example(
    fresh_home: Path, project: Project
) -> None:
    for listen in ("8080", "nowhere:", ":80", "127.0.0.1:99999"):
        with pytest.raises(InvalidArgument, match="is not a valid address") as refused:
            read_listening({"WINDLASS_LISTEN": listen})
        assert refused.value.hint == "Write host and port: WINDLASS_LISTEN=0.0.0.0:8080"
    done = project.run(BIN / "windlass", "server", "run", "--listen", "8080")
    assert done.returncode == 1
    assert "is not a valid address" in done.stdout


@pytest.mark.parametrize(
    ("listen", "names", "urls"),
    [
        ("[::]:8080", "", ()),
        (":::8080", "lab", ("http://lab:8080",)),
        ("0.0.0.0:8080", "::,0.0.0.0", ()),
        ("[2001:db8::7]:8080", "", ("http://[2001:db8::7]:8080",)),
        ("[::]:8080", "[2001:DB8::7], lab", ("http://[2001:db8::7]:8080", "http://lab:8080")),
        ("[::1]:8080", "", ()),
        ("10.0.0.7:8080", "", ("http://10.0.0.7:8080",)),
    ],
)
def test_pods_get_reachable_addresses(listen: str, names: str, urls: tuple[str, ...]) -> None:
    listening = read_listening({"WINDLASS_LISTEN": listen, "WINDLASS_NAMES": names})
    assert listening.urls(listening.port) == urls


@pytest.mark.parametrize("host", ["::1", "::"])
def test_a_server_listens_on_ipv4_and_ipv6(host: str) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    listening = Listening(host)
    with listening.open() as listener:
        port = listener.getsockname()[1]
        own = urlsplit(listening.own_url(port))
        assert own.hostname is not None and own.port == port
        socket.create_connection((own.hostname, port), PATIENCE).close()
