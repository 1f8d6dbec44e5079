"""Ports of local jobs are free, held until the replica binds, and fixed for the job's life."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_runtime import World, is_running

from windlass.model.job import Job
from windlass.model.status import Phase, ReplicaId
from windlass.runtimes.local import ports
from windlass.runtimes.local.ports import Ports
from windlass.worker.supervise.ports import CAN_BE_HELD

pytestmark = pytest.mark.skipif(not CAN_BE_HELD, reason="ports can be held on Linux only")

WORKERS = [ReplicaId("worker", index, 1) for index in range(2)]
# Binds its own address as servers do, and prints its state until it is stopped.
SERVES = """
    import asyncio, json, os

    async def hear_out(reader, writer):
        await reader.read()  # who leaves first, the kernel keeps the port of for a while
        writer.close()

    async def main():
        host, port = json.loads(os.environ["WINDLASS_HOSTS"])["worker"][
            int(os.environ["WINDLASS_INDEX"])
        ].split(":")
        print("begun", flush=True)
        while not os.path.exists("bind"):
            await asyncio.sleep(0.01)
        async with await asyncio.start_server(hear_out, host, port):
            print("listening", flush=True)
            while not os.path.exists("go"):
                await asyncio.sleep(0.01)

    asyncio.run(main())
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "home")
    yield world
    world.close()


def serving(world: World, **spec: object) -> Job:
    return world.script(SERVES, name="worker", replicas=2, **spec)


def touch(world: World, job: Job, replica: ReplicaId, name: str) -> None:
    (world.path(job, replica=replica).parent / "work" / name).touch()


def port_of(world: World, job: Job, replica: ReplicaId) -> int:
    address = world.addresses[job.uid][f"{replica.role}-{replica.index}"]
    assert address.startswith("127.0.0.1:")
    return int(address.rpartition(":")[2])


def is_held(port: int) -> bool:
    """Return whether another process cannot bind the port, on this host or on all."""
    script = (
        "import socket, sys\n"
        "for host in ('127.0.0.1', '0.0.0.0'):\n"
        "    try: socket.socket().bind((host, int(sys.argv[1])))\n"
        "    except OSError as error: print(error.errno)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(port)], capture_output=True, text=True, check=True
    )
    refusals = done.stdout.split()
    assert set(refusals) <= {str(errno.EADDRINUSE)}
    return len(refusals) == 2


def test_a_single_replica_has_no_port(world: World) -> None:
    job = world.script("pass")
    assert world.runtime.addresses(job, {}) == {}
    ended = world.run(job)
    assert ended.address == "127.0.0.1"
    assert world.json(job, "launch.json")["hold"] is None


def test_a_single_replica_of_a_framework_has_a_port(world: World) -> None:
    job = world.script("pass", name="worker", framework="torch")
    assert list(world.runtime.addresses(job, {})) == ["worker-0"]


def test_every_replica_has_its_own_address_outside_the_ephemeral_range(world: World) -> None:
    job = world.script("pass", name="worker", replicas=16)
    addresses = world.runtime.addresses(job, {})
    assert list(addresses) == [f"worker-{index}" for index in range(16)]
    assert len(set(addresses.values())) == 16
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    numbers = [int(address.partition(":")[2]) for address in addresses.values()]
    assert not [number for number in numbers if low <= number <= high]
    # A second request before the first is stored returns the same ports.
    assert world.runtime.addresses(job, {}) == addresses


def test_known_ports_stay_and_a_grown_job_gets_more(world: World) -> None:
    job = world.script("pass", name="worker", replicas=2)
    addresses = world.runtime.addresses(job, {})
    grown = Job(
        uid=job.uid,
        trial_id=job.trial_id,
        spec=world.script("pass", name="worker", replicas=4).spec,
    )
    more = world.runtime.addresses(grown, addresses)
    assert len(set(more.values())) == 4
    assert addresses.items() <= more.items()
    assert world.runtime.addresses(job, more) == more


def test_a_port_is_held_from_its_choice_to_the_end_of_the_job(world: World) -> None:
    job = serving(world)
    world.start_all(job)
    first, second = (port_of(world, job, replica) for replica in WORKERS)
    for replica in WORKERS:
        world.wait_for_text(job, "begun", replica)
    assert is_held(first)
    assert is_held(second)
    for replica in WORKERS:
        touch(world, job, replica, "bind")
        world.wait_for_text(job, "listening", replica)
    for port in (first, second):
        socket.create_connection(("127.0.0.1", port), timeout=60).close()
    assert {replica.address for replica in world.runtime.list(job)} == set(
        world.addresses[job.uid].values()
    )
    for replica in WORKERS:
        touch(world, job, replica, "go")
        assert world.end_of(job, replica).exit_code == 0
    # These attempts have ended, but not the job: the next attempts need the port.
    assert is_held(first)
    world.runtime.release(job.uid)
    world.eventually(lambda: not is_held(first) and not is_held(second), "they are let go")


def test_a_restarted_replica_has_the_same_address_and_can_bind_it(world: World) -> None:
    job = serving(world)
    world.start_all(job)
    first, again = WORKERS[0], ReplicaId("worker", 0, 2)
    world.wait_for_text(job, "begun", first)
    touch(world, job, first, "bind")
    world.wait_for_text(job, "listening", first)
    before = world.addresses[job.uid]
    os.kill(world.json(job, "state.json", first)["process"]["pid"], signal.SIGKILL)
    assert world.end_of(job, first).exit_code == 137
    world.start(job, again)
    world.wait_for_text(job, "listening", again)  # the file that reports it still exists
    assert world.addresses[job.uid] == before
    hosts = [
        world.json(job, "launch.json", replica)["env"]["WINDLASS_HOSTS"]
        for replica in (*WORKERS, again)
    ]
    assert set(hosts) == {json.dumps({"worker": list(before.values())}, separators=(",", ":"))}


def test_without_a_server_the_supervisor_holds_the_port(world: World) -> None:
    job = serving(world)
    world.start_all(job)
    for replica in WORKERS:
        world.wait_for_text(job, "begun", replica)
    port = port_of(world, job, WORKERS[0])
    world.runtime.close()
    assert is_held(port)
    touch(world, job, WORKERS[0], "bind")
    world.wait_for_text(job, "listening", WORKERS[0])


def test_a_new_server_holds_the_ports_again(world: World) -> None:
    """The port of a listening replica is held after the replica has ended."""
    job = serving(world)
    world.start_all(job)
    world.wait_for_text(job, "begun", WORKERS[0])
    touch(world, job, WORKERS[0], "bind")
    world.wait_for_text(job, "listening", WORKERS[0])
    world.wait_for_text(job, "begun", WORKERS[1])
    world.runtime.close()
    world.restart().adopt([job])
    # Only the new server holds the port now, and assigns it to no other job.
    stranger = world.script("pass", name="worker", replicas=50)
    addresses = set(world.runtime.addresses(stranger, {}).values())
    assert not addresses & set(world.addresses[job.uid].values())
    for replica in WORKERS:
        state = world.json(job, "state.json", replica)
        os.kill(state["process"]["pid"], signal.SIGKILL)
        world.end_of(job, replica)
        world.eventually(lambda pid=state["supervisor"]["pid"]: not is_running(pid), "it is gone")
    world.runtime.list(job)
    assert is_held(port_of(world, job, WORKERS[0]))
    assert is_held(port_of(world, job, WORKERS[1]))
    again = ReplicaId("worker", 0, 2)
    world.start(job, again)
    world.wait_for_text(job, "listening", again)


def test_two_homes_and_many_concurrent_jobs_never_share_a_port() -> None:
    """Many threads request ports for many jobs of two servers on one machine."""
    servers = [Ports(), Ports()]
    addresses: list[str] = []

    def ask(number: int) -> None:
        for job in range(5):
            names = [f"worker-{index}" for index in range(8)]
            addresses.extend(servers[number % 2].addresses(f"{number}.{job}", names, {}).values())

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        assert len(addresses) == len(set(addresses)) == 8 * 5 * 8
    finally:
        for server in servers:
            server.close()


def test_when_no_port_is_left_no_port_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    free_ports = Ports()
    [address] = free_ports.addresses("one", ["worker-0"], {}).values()
    number = int(address.partition(":")[2])
    few = range(number, number + 3)
    free = [port for port in few if not is_held(port)]
    monkeypatch.setattr(ports, "_span", lambda: few)
    crowd = [f"worker-{index}" for index in range(4)]
    with pytest.raises(OSError, match=f"no 4 ports are free between {number} and {number + 2}"):
        free_ports.addresses("two", crowd, {})
    assert [port for port in few if not is_held(port)] == free
    free_ports.close()
    assert not is_held(number)


@pytest.mark.parametrize(
    ("kernels", "ours"),
    [
        ((32768, 60999), range(12000, 32768)),
        ((10000, 40000), range(40001, 65536)),
        ((1024, 65535), range(12000, 65536)),
    ],
)
def test_the_range_of_ports(
    kernels: tuple[int, int], ours: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    range_file = tmp_path / "ip_local_port_range"
    range_file.write_text(f"{kernels[0]}\t{kernels[1]}\n")
    monkeypatch.setattr(ports, "_EPHEMERAL", str(range_file))
    assert ports._span() == ours


def test_user_code_does_not_inherit_the_socket_that_holds_a_port(world: World) -> None:
    """The process of a function is a fork. It must not inherit the socket."""

    def sockets() -> list[str]:
        import os

        return [
            target
            for fd in os.listdir("/proc/self/fd")
            if os.path.lexists(path := f"/proc/self/fd/{fd}")
            and (target := os.readlink(path)).startswith("socket:")
        ]

    job = world.call(sockets, name="worker", replicas=2)
    world.start_all(job)
    assert world.end_of(job, WORKERS[0]).phase is Phase.SUCCEEDED
    assert world.value(job, WORKERS[0]) == []
