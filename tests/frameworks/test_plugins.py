"""Frameworks that other packages bring: real packages, installed into a folder of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

MPI = """
    from windlass.frameworks import Cluster, Framework, Member

    def environment(cluster: Cluster, me: Member) -> dict[str, str]:
        return {"MPI_RANK": f"{cluster.rank(me)} of {cluster.world_size}"}

    MPI = Framework(name="mpi", environment=environment, roles=("worker",))
"""


def install(site: Path, name: str, source: str, *entry_points: str) -> None:
    """A package of one module, with what pip would have written beside it."""
    (site / f"{name}.py").write_text(textwrap.dedent(source))
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "RECORD").write_text(f"{name}.py,,\n")
    lines = ["[windlass.frameworks]", *entry_points, ""]
    (info / "entry_points.txt").write_text("\n".join(lines))


def answer(site: Path, script: str) -> tuple[object, str]:
    """What a fresh interpreter with that folder prints, as JSON, and what it complains of."""
    done = subprocess.run(
        [sys.executable, "-c", "import json\n" + textwrap.dedent(script)],
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_a_plugin_is_found_by_its_entry_point(tmp_path: Path) -> None:
    install(tmp_path, "wl_mpi", MPI, "mpi = wl_mpi:MPI")
    script = """
        from windlass.frameworks import *
        from windlass.model.job import JobSpec, ProcessCall, Role
        mpi = find_framework("mpi")
        role = Role(executable=ProcessCall(argv=("true",)), name="worker", replicas=2)
        spec = JobSpec(roles=(role,), framework="mpi")
        cluster = cluster_of(spec, {})
        bad = JobSpec(roles=(Role(executable=role.executable, name="wroker"),), framework="mpi")
        print(json.dumps([
            known_frameworks(),
            mpi.environment(cluster, cluster.members[1]),
            problems_of(spec),
            problems_of(bad),
        ]))
    """
    told, complaints = answer(tmp_path, script)
    assert told == [
        ["tensorflow", "torch", "jax", "mpi"],
        {"MPI_RANK": "1 of 2"},
        [],
        ["mpi has no role 'wroker'; did you mean 'worker'?"],
    ]
    assert not complaints


def test_a_broken_plugin_is_as_good_as_absent_and_ours_cannot_be_replaced(tmp_path: Path) -> None:
    install(tmp_path, "wl_broken", "raise RuntimeError('no MPI here')", "broken = wl_broken:X")
    install(tmp_path, "wl_odd", "X = 'no framework at all'", "odd = wl_odd:X")
    install(tmp_path, "wl_mpi", MPI, "torch = wl_mpi:MPI", "mpi = wl_mpi:MPI")
    script = """
        from windlass.frameworks import *
        print(json.dumps([known_frameworks(), find_framework("torch").name]))
    """
    told, complaints = answer(tmp_path, script)
    assert told == [["tensorflow", "torch", "jax", "mpi"], "torch"]
    assert "the framework broken: no MPI here" in complaints
