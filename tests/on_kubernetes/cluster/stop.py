"""Stop the cluster in any state, so that nothing of it is left."""

from __future__ import annotations

import shutil
from pathlib import Path

from on_kubernetes.cluster import enclosure, network
from on_kubernetes.cluster.commands import ClusterError
from on_kubernetes.cluster.locations import STATE
from on_kubernetes.cluster.lock import locked


def down() -> None:
    """Stop the cluster, if it is up."""
    with locked():
        was_there = enclosure.is_open() or STATE.exists()
        take_down()
    print("The cluster is gone." if was_there else "No cluster was up.")


def take_down() -> None:
    """End and remove everything except the builds."""
    if not (enclosure.is_open() or STATE.exists()):
        return
    enclosure.unmake()
    network.disconnect()
    _remove_state()


def _remove_state() -> None:
    mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    if below := [mount for mount in mounted if Path(mount).is_relative_to(STATE)]:
        raise ClusterError(f"Not removed, since something is mounted there: {', '.join(below)}")
    shutil.rmtree(STATE, ignore_errors=False)
