"""The cable between this machine and the cluster, and its route to the outside.

The only changes of the machine: one pair of network devices, which is removed with the cluster's
namespaces, three rules with an identifying comment, and the forwarding of packets.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

from on_kubernetes.cluster.commands import ClusterError, run
from on_kubernetes.cluster.enclosure import run_inside
from on_kubernetes.cluster.locations import (
    LINK,
    LINK_NETWORK,
    MACHINE_ADDRESS,
    NAME,
    NODE_ADDRESS,
    STATE,
)

_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
_FORWARDED_BEFORE = STATE / "forwarded-before"

_RULES = {
    "nat": (f"POSTROUTING -s {LINK_NETWORK} ! -o {LINK} -j MASQUERADE",),
    "filter": (f"FORWARD -i {LINK} -j ACCEPT", f"FORWARD -o {LINK} -j ACCEPT"),
}


def connect(holder: int) -> None:
    """Connect the namespaces that a process holds, and give them a route to the outside."""
    if taken := run("ip", "route", "show", "root", LINK_NETWORK).strip():
        raise ClusterError(f"The network {LINK_NETWORK} is in use on this machine:\n{taken}")
    size = str(mtu())
    peer = ("peer", "name", "eth0", "mtu", size, "netns", str(holder))
    run("ip", "link", "add", LINK, "mtu", size, "type", "veth", *peer)
    run("ip", "address", "add", f"{MACHINE_ADDRESS}/30", "dev", LINK)
    run("ip", "link", "set", LINK, "up")
    run_inside("ip", "link", "set", "lo", "up")
    run_inside("ip", "address", "add", f"{NODE_ADDRESS}/30", "dev", "eth0")
    run_inside("ip", "link", "set", "eth0", "up")
    run_inside("ip", "route", "add", "default", "via", MACHINE_ADDRESS)
    run_inside("sh", "-c", f"echo 1 > {_FORWARDING}")

    _FORWARDED_BEFORE.write_text(_FORWARDING.read_text())
    _FORWARDING.write_text("1\n")
    for table, rules in _RULES.items():
        for rule in rules:
            chain, *rest = rule.split()
            comment = ("-m", "comment", "--comment", NAME)
            run("iptables", "-w", "-t", table, "-I", chain, *rest, *comment)


def disconnect() -> None:
    """Remove all of it that exists."""
    subprocess.run(["ip", "link", "delete", LINK], capture_output=True, check=False)
    for table in _RULES:
        for rule in run("iptables-save", "-t", table).splitlines():
            words = shlex.split(rule)
            if NAME in words:
                run("iptables", "-w", "-t", table, "-D", *words[1:])
    if _FORWARDED_BEFORE.exists():
        _FORWARDING.write_text(_FORWARDED_BEFORE.read_text())
        _FORWARDED_BEFORE.unlink()


def mtu() -> int:
    """The largest packet size of the machine's route to the outside."""
    match = re.search(r"\bdev (\S+)", run("ip", "route", "show", "default"))
    return int(Path(f"/sys/class/net/{match[1]}/mtu").read_text()) if match else 1500


def name_servers() -> list[str]:
    """The name servers of the machine that the cluster can reach."""
    for path in ("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"):
        if Path(path).exists():
            matches = re.findall(r"(?m)^nameserver\s+([\d.]+)\s*$", Path(path).read_text())
            if reachable := [match for match in matches if not match.startswith("127.")]:
                return reachable
    return []
