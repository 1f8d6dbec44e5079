"""The namespaces of the cluster, and the one process that holds them.

Kill that process and everything in them ends: programs, containers, mounts, network devices and
rules. No state must be remembered or removed piece by piece.
"""

from __future__ import annotations

import functools
import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from on_kubernetes.cluster.builds.kubernetes import PAUSE
from on_kubernetes.cluster.commands import ClusterError, run
from on_kubernetes.cluster.locations import LOGS, NAME, SOCKET, STATE
from on_kubernetes.cluster.wait import NeverHappenedError, end_process, wait_until

_KIND = "windlass-kube:"
_MARK = f"{_KIND}{STATE}"
_CNI_CACHE = Path("/var/lib/cni")  # the path of the cache cannot be configured
_CGROUPS = Path("/sys/fs/cgroup")

# Settings that the kubelet would change for the whole machine. It finds them set, and the machine
# stays unchanged.
_KERNEL_SETTINGS = {
    "kernel/keys/root_maxbytes": 25_000_000,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
}

# $1: a folder, $2: the program that waits, $3: its mark, $4: the socket of containerd
_PREPARE = """
set -e
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/lock /run/netns "$(dirname "$4")"
mount --bind "$1/logs/var" /var/log
mount -t tmpfs tmpfs /var/lib/cni
cd "$1/settings"
find . -type f | while read -r setting; do
    if test -e "/proc/sys/$setting"; then mount --bind "$setting" "/proc/sys/$setting"; fi
done
cd /
mount --make-rshared /
exec "$2" "$3"
"""


def is_open() -> bool:
    """Return whether the namespaces exist."""
    return holder() is not None


def holder() -> int | None:
    """Return the process that holds the namespaces."""
    wanted = [os.fsencode(PAUSE), os.fsencode(_MARK)]
    for pid in _all_processes():
        if _arguments(pid)[:2] == wanted:
            return pid
    return None


def make() -> int:
    """Create the namespaces and return the process that holds them."""
    (LOGS / "var").mkdir(parents=True)
    for name, value in _KERNEL_SETTINGS.items():
        setting = STATE / "settings" / name
        setting.parent.mkdir(parents=True, exist_ok=True)
        setting.write_text(f"{value}\n")
    _CNI_CACHE.mkdir(exist_ok=True)
    for hierarchy in _hierarchies():
        (hierarchy / NAME).mkdir(exist_ok=True)
    with (LOGS / "enclosure.log").open("ab") as log:
        subprocess.Popen(
            [
                *("unshare", "--mount", "--net", "--pid", "--fork", "--propagation", "private"),
                *("sh", "-c", _PREPARE, "sh", STATE, PAUSE, _MARK, SOCKET),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
        )
    try:
        wait_until(is_open, "namespaces are made")
    except NeverHappenedError:
        log_text = (LOGS / "enclosure.log").read_text().strip()
        raise ClusterError(f"No namespaces for the cluster could be made:\n{log_text}") from None
    pid = holder()
    assert pid is not None
    return pid


def unmake() -> None:
    """End everything that runs in the namespaces, and so the namespaces."""
    if pid := holder():
        end_process(pid, signal.SIGKILL)
    for hierarchy in _hierarchies():
        group = hierarchy / NAME
        wait_until(functools.partial(_is_removed, group), f"{group} is gone")
    # Another cluster has a mount there, which would be removed with the folder.
    if not any(_is_of_our_kind(pid) for pid in _all_processes()):
        try:
            _CNI_CACHE.rmdir()
        except OSError:
            pass  # it was never created, or other containers use it


def run_inside(*command: str | Path, stdin: str | None = None) -> str:
    """Run a command in the namespaces and return its output."""
    return run(*_entering(), *command, stdin=stdin)


def spawn_inside(
    command: tuple[str | Path, ...], log: Path, env: Mapping[str, str] | None = None
) -> None:
    """Start a program in the namespaces without waiting for it."""
    launch = 'exec setsid "$@" </dev/null >>"$0" 2>&1 &'
    run(*_entering(), "sh", "-c", launch, log, *command, env=env)


def process_inside(known_by: str) -> int | None:
    """Return the process in the namespaces, outside of containers, whose command has this word."""
    init = holder()
    if init is None:
        return None
    wanted = os.fsencode(known_by)
    home = _namespaces(init)
    for pid in _all_processes():
        if wanted in _arguments(pid)[:3] and _namespaces(pid) == home:
            return pid
    return None


def accepts(path: str) -> bool:
    """Return whether a process in the namespaces accepts connections on a Unix socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(f"/proc/{holder()}/root{path}")
        except OSError:
            return False
    return True


def listens(port: int, protocol: str = "tcp") -> bool:
    """Return whether a process in the namespaces listens on a port."""
    init = holder()
    if init is None:
        return False
    bound = "0A" if protocol == "tcp" else "07"
    for kind in (protocol, f"{protocol}6"):
        for line in Path(f"/proc/{init}/net/{kind}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == bound and int(fields[1].rpartition(":")[2], 16) == port:
                return True
    return False


def _entering() -> tuple[str, ...]:
    init = holder()
    if init is None:
        raise ClusterError("The cluster is not up: `make kube` starts it.")
    return ("nsenter", "--target", str(init), "--mount", "--net", "--pid", "--")


def _all_processes() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _arguments(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
    except OSError:
        return []


def _is_of_our_kind(pid: int) -> bool:
    """Return whether a process holds the namespaces of any test cluster."""
    command = _arguments(pid)[:2]
    return len(command) == 2 and command[1].startswith(os.fsencode(_KIND))


def _namespaces(pid: int) -> tuple[str, str] | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid"), os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:
        return None


def _hierarchies() -> list[Path]:
    """The root folders of control groups: one, or one for every controller."""
    if (_CGROUPS / "cgroup.controllers").exists():
        return [_CGROUPS]
    return [path for path in _CGROUPS.iterdir() if path.is_dir() and not path.is_symlink()]


def _is_removed(group: Path) -> bool:
    """Remove a control group with its children, and return whether that was possible."""
    try:
        for below, _, _ in os.walk(group, topdown=False):
            os.rmdir(below)
    except OSError:
        return False  # the last of its processes is still ending
    return True
