"""A program on the port of a dead server gets no token, and its answers are not loaded."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from forged_server import OTHER_USER, forged_server, port_of

import windlass as wl
from harness import PATIENCE, Project, kill_server, stop_server

pytestmark = pytest.mark.finding("A5")

FORKS = """
    import os, sys
    import windlass as wl


    @wl.run(cpus=0.1)
    def double(number):
        return 2 * number


    print(double(1), flush=True)
    sys.stdin.readline()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    print(double(21), len(list(wl.list_trials())), flush=True)
    if not child:
        os._exit(0)
"""

NESTS = """
    import os, sys, time
    import windlass as wl


    @wl.run(cpus=0.1)
    def double(number):
        return 2 * number


    @wl.run(cpus=0.1)
    def outer(gate):
        first = double.submit(1).result()
        print("began", flush=True)
        while not os.path.exists(gate):
            time.sleep(0.01)
        return first, double.submit(21).result()


    trial = outer.submit(sys.argv[1])
    for line in trial.logs(follow=True):
        break
    print(trial.id)
"""


def test_a_forked_program_sends_nothing_to_a_forged_server(
    fresh_home: Path, project: Project, tmp_path: Path
) -> None:
    project.write("forks.py", FORKS)
    program = subprocess.Popen(
        [sys.executable, "forks.py"],
        cwd=project.path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "2\n"
    token, port = (fresh_home / "token").read_text().strip(), port_of(fresh_home)
    kill_server(fresh_home)
    with forged_server(tmp_path, port) as forged:
        rest, _ = program.communicate("go on\n", timeout=PATIENCE)
        assert rest == "42 2\n42 3\n"
        assert forged.received == b""
        forged.check_gained_nothing(token)


def test_a_trial_that_submits_trials_sends_nothing_to_a_forged_server(
    fresh_home: Path, project: Project, tmp_path: Path
) -> None:
    project.write("nests.py", NESTS)
    done = project.python("nests.py", tmp_path / "gate")
    token, port = (fresh_home / "token").read_text().strip(), port_of(fresh_home)
    kill_server(fresh_home)
    with forged_server(tmp_path, port) as forged:
        (tmp_path / "gate").touch()
        assert wl.get_trial(int(done.stdout)).result(timeout=PATIENCE) == (2, 42)
        assert forged.received == b""
        forged.check_gained_nothing(token)


def test_a_server_that_is_named_proves_that_it_knows_the_token_on_every_connection(
    fresh_home: Path, tmp_path: Path
) -> None:
    wl.Client().server_info()
    token, port = (fresh_home / "token").read_text().strip(), port_of(fresh_home)
    client = wl.Client(f"http://127.0.0.1:{port}", token=token)
    assert client.server_info().home == str(fresh_home)
    kill_server(fresh_home)
    with forged_server(tmp_path, port) as forged:
        for _ in range(2):
            with pytest.raises(wl.Unauthorized, match="so the token was not sent"):
                client.get_trial(1)
        assert forged.received.count(b"GET /api/v1/health") >= 2, "it was asked for its proof"
        assert b"trials" not in forged.received
        forged.check_gained_nothing(token)


def test_the_forged_server_is_dangerous_to_a_client_that_trusts_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    with forged_server(tmp_path, port) as forged:
        with socket.create_connection(("127.0.0.1", int(port))) as connection:
            connection.sendall(b"Authorization: Bearer hush")
            assert b"event: end" in connection.recv(1 << 20)
        assert b"hush" in forged.received


def test_a_home_with_a_long_path_has_its_socket_in_a_directory_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / ("long" * 30) / "home"
    monkeypatch.setenv("WINDLASS_HOME", str(home))
    try:
        client = wl.Client()
        pid = client.server_info().pid
        folder = Path(json.loads((home / "server.json").read_text())["socket"]).parent
        assert home not in folder.parents
        assert folder.stat().st_mode & 0o777 == 0o700
        token = (home / "token").read_text().strip()
        kill_server(home)
        if os.getuid() == 0:  # as after a clean-up of temporary files
            shutil.rmtree(folder)
            folder.mkdir()
            with forged_server(tmp_path, str(folder / "server.sock")) as forged:
                os.chown(folder, OTHER_USER, OTHER_USER)
                client.transport.drop_idle()
                assert client.server_info().pid != pid
                assert forged.received == b""
                forged.check_gained_nothing(token)
            shutil.rmtree(folder)
        assert client.server_info().pid != pid
    finally:
        stop_server(home)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc lists the open sockets")
def test_a_client_of_this_machine_opens_no_tcp_connection(fresh_home: Path) -> None:
    client = wl.Client()
    client.server_info()
    port = f":{int(port_of(fresh_home)):04X}"
    tcp = Path("/proc/net/tcp").read_text().splitlines()[1:]
    connections = [line.split() for line in tcp if port in line]
    assert [fields[3] for fields in connections] == ["0A"], "only the server listens"


def test_a_server_without_its_socket_is_replaced(fresh_home: Path) -> None:
    client = wl.Client()
    pid = client.server_info().pid
    client.transport.drop_idle()
    (fresh_home / "run" / "server.sock").unlink()
    assert client.server_info().pid != pid
