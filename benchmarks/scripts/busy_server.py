"""Clients that load a server, one kind per process, until standard input closes.

Usage: busy_server.py strangers|readers|followers|probe|submissions NUMBER TRIAL
"""

import json
import os
import select
import selectors
import socket
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

HOME = Path(os.environ["WINDLASS_HOME"])
ADDRESS = urlsplit(json.loads((HOME / "server.json").read_text())["url"])
TOKEN = (HOME / "token").read_text().strip()


def connect() -> socket.socket:
    return socket.create_connection((str(ADDRESS.hostname), ADDRESS.port or 80), timeout=60)


def request(path: str) -> bytes:
    head = f"GET /api/v1{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    return head.encode()


def is_over() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def ready() -> None:
    print("ready", flush=True)


def be_strangers(number: int, trial: int) -> None:
    """Connections without a request. The server may close them."""
    del trial
    connections = [connect() for _ in range(number)]
    ready()
    sys.stdin.read()
    del connections


def be_readers(number: int, trial: int) -> None:
    """Requests for a log whose responses nobody reads."""
    connections = [connect() for _ in range(number)]
    for connection in connections:
        connection.sendall(request(f"/trials/{trial}/stream"))
    ready()
    sys.stdin.read()


def be_followers(number: int, trial: int) -> None:
    """Followers of a whole log, each again from the start once it has all lines."""
    rounds = 0
    with selectors.DefaultSelector() as selector:

        def follow() -> None:
            connection = connect()
            connection.sendall(request(f"/trials/{trial}/stream"))
            connection.setblocking(False)
            selector.register(connection, selectors.EVENT_READ, [b""])

        for _ in range(number):
            follow()
        ready()
        while not is_over():
            for key, _ in selector.select(0.1):
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                data = connection.recv(1 << 20)
                key.data[0] = key.data[0][-40:] + data
                if not data or b"the last line" in key.data[0]:
                    rounds += bool(data)
                    selector.unregister(connection)
                    connection.close()
                    follow()
    print("=", json.dumps(rounds), flush=True)


def probe(number: int, trial: int) -> None:
    """Requests for the health of the server, one after the other, with short pauses."""
    del number, trial
    times = []
    connection = connect()
    ready()
    while not is_over():
        start = time.perf_counter()
        connection.sendall(request("/health"))
        if not connection.recv(65536):
            raise RuntimeError("the server closed the connection of a probe")
        times.append(time.perf_counter() - start)
        time.sleep(0.005)  # measures the server, and should not load it
    print("=", json.dumps(times), flush=True)


def submit(number: int, trial: int) -> None:
    """Submissions that wait in the queue, as many as the server accepts."""
    del number, trial
    import windlass as wl

    job = wl.Job(
        wl.Command(["true"]),
        executor=wl.Local(cpus=wl.Client().server_info().capacity.cpus),
        name="storm",
        priority=-1,  # the calls that are measured start first
    )
    job.submit()
    ready()
    count = 1
    while not is_over():
        job.submit()
        count += 1
    print("=", json.dumps(count), flush=True)


if __name__ == "__main__":
    kind, number, trial = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    {
        "strangers": be_strangers,
        "readers": be_readers,
        "followers": be_followers,
        "probe": probe,
        "submissions": submit,
    }[kind](number, trial)
