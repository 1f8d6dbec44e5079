"""Addresses of a job's replicas survive all kinds of kills and are freed at its end."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
from pathlib import Path

import pytest

import job_requests
import windlass as wl
from harness import PATIENCE, eventually
from windlass.client.connection.discovery import describe_server
from windlass.home import Home
from windlass.model.job import RestartPolicy
from windlass.worker.supervise.ports import CAN_BE_HELD

# Listens at its address, reports its identity, and waits.
LISTENS = """
import json, socketserver, threading
at = json.loads(os.environ["WINDLASS_HOSTS"])[role][index]
host, port = at.split(":")
socketserver.TCPServer.allow_reuse_address = True
server = socketserver.TCPServer((host, int(port)), socketserver.BaseRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
folder = os.environ["FOLDER"]
touch(f"{folder}/{name}.{attempt}")
wait_for(f"{folder}/go")
"""


def is_free(address: str) -> bool:
    host, _, port = address.partition(":")
    with socket.socket() as mine:
        try:
            mine.bind((host, int(port)))
        except OSError as error:
            assert error.errno == errno.EADDRINUSE
            return False
    return True


@pytest.mark.skipif(not CAN_BE_HELD, reason="ports can be held on Linux only")
def test_addresses_survive_kills_of_replica_and_server_and_are_freed_after_the_job(
    fresh_home: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    trial = job_requests.submit(
        job_requests.role(
            LISTENS,
            replicas=2,
            env={"FOLDER": str(folder)},
            restart_policy=RestartPolicy.EXIT_CODE,
        )
    )
    eventually(lambda: len(list(folder.iterdir())) == 2, "both listen")
    before = [replica.address for replica in trial.refresh().replicas]
    assert len(set(before)) == 2

    server = describe_server(Home(fresh_home))
    assert server is not None
    os.kill(server["pid"], signal.SIGKILL)
    state = fresh_home / "trials" / str(trial.id) / "worker-0" / "1" / "state.json"
    os.kill(json.loads(state.read_text())["process"]["pid"], signal.SIGKILL)  # without a server
    eventually(lambda: wl.get_trial(trial.id).restarts == 1, "it is reported")
    eventually((folder / "worker-0.2").exists, "it listens again, at the same address")
    after = [replica.address for replica in trial.refresh().replicas]
    assert after == before
    assert not any(is_free(address) for address in after)

    (folder / "go").touch()
    trial.wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED"
    eventually(lambda: all(is_free(address) for address in after), "the ports are let go")
