"""A server of another user on the port of a dead server, which wants the token of its clients."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from windlass.model.records import TrialRecord, TrialState
from windlass.model.requests import StreamEnd
from windlass.version import __version__

OTHER_USER = 65534

# Answers each request as a server would answer a successful call, and writes down what it received.
_PROGRAM = """
import os, socket, sys, threading
address, note, answer = sys.argv[1], sys.argv[2], open(sys.argv[3], "rb").read()
if address.isdigit():
    listener = socket.create_server(("127.0.0.1", int(address)))
    user = OTHER_USER
else:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    user = OTHER_USER
received = open(note, "ab", buffering=0)
if os.getuid() == 0:
    os.setuid(user)

def serve(connection):
    with connection:
        while data := connection.recv(1 << 20):
            received.write(data)
            connection.sendall(answer)

print("ready", flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


class ForgedServer:
    """A process of another user, if the tests may create one, or else of this user."""

    def __init__(self, folder: Path, address: str) -> None:
        self.mark = folder / "the-forged-result-was-loaded"
        self._note = folder / "received"
        answer = folder / "answer"
        answer.write_bytes(self._answer())
        program = _PROGRAM.replace("OTHER_USER", str(OTHER_USER))
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, address, str(self._note), str(answer)],
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    @property
    def received(self) -> bytes:
        """All bytes that clients have sent."""
        return self._note.read_bytes()

    def check_gained_nothing(self, token: str) -> None:
        assert token.encode() not in self.received
        assert not self.mark.exists()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _answer(self) -> bytes:
        record = msgspec.convert(_RECORD, TrialRecord)
        end = StreamEnd(trial=record, result=pickle.dumps(_Bomb(str(self.mark))))
        body = b"event: end\ndata: " + msgspec.json.encode(end) + b"\n\n"
        head = (
            "HTTP/1.1 200 OK",
            "Content-Type: text/event-stream",
            f"Content-Length: {len(body)}",
            f"Windlass-Version: {__version__}",
            f"Windlass-Proof: {'0' * 64}",
        )
        return "\r\n".join((*head, "\r\n")).encode() + body


_RECORD = {
    "id": 1, "uid": "0" * 32, "name": "n", "experiment": "e", "experiment_id": 1, "project": "p",
    "state": TrialState.SUCCEEDED, "params": {}, "provenance": {},
    "spec": {"roles": [{"executable": {"type": "process", "argv": ["true"]}}]},
}  # fmt: skip


class _Bomb:
    """An object that leaves a directory behind when it is unpickled."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (self._path,)


def port_of(home: Path) -> str:
    """Return the port of the server of a home."""
    url = json.loads((home / "server.json").read_text())["url"]
    return str(urlsplit(url).port)


@contextlib.contextmanager
def forged_server(folder: Path, address: str) -> Iterator[ForgedServer]:
    """Run a forged server at a port or at the path of a socket."""
    server = ForgedServer(folder, address)
    try:
        yield server
    finally:
        server.close()
