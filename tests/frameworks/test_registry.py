"""Frameworks from other packages: real packages, installed into a separate folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from harness import Project

MPI = """
    from windlass.frameworks import Cluster, Framework, Member

    def environment(cluster: Cluster, me: Member) -> dict[str, str]:
        return {"MPI_RANK": f"{cluster.rank(me)} of {cluster.world_size}"}

    MPI = Framework(name="mpi", environment=environment, roles=("worker",))
"""


def install(site: Path, name: str, source: str, *entry_points: str) -> None:
    """Install a package of one module with the metadata that pip would write."""
    (site / f"{name}.py").write_text(textwrap.dedent(source))
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "RECORD").write_text(f"{name}.py,,\n")
    lines = ["[windlass.frameworks]", *entry_points, ""]
    (info / "entry_points.txt").write_text("\n".join(lines))


def answer(site: Path, script: str) -> tuple[object, str]:
    """The JSON that a fresh interpreter with that folder prints, and its warnings."""
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
        cluster = build_cluster(spec, {})
        bad = JobSpec(roles=(Role(executable=role.executable, name="wroker"),), framework="mpi")
        print(json.dumps([
            framework_names(),
            mpi.environment(cluster, cluster.members[1]),
            find_framework_problems(spec),
            find_framework_problems(bad),
        ]))
    """
    output, complaints = answer(tmp_path, script)
    assert output == [
        ["tensorflow", "torch", "jax", "mpi"],
        {"MPI_RANK": "1 of 2"},
        [],
        ["mpi has no role 'wroker'; did you mean 'worker'?"],
    ]
    assert not complaints


def test_a_broken_plugin_is_ignored_and_built_in_frameworks_cannot_be_replaced(
    tmp_path: Path,
) -> None:
    install(tmp_path, "wl_broken", "raise RuntimeError('no MPI here')", "broken = wl_broken:X")
    install(tmp_path, "wl_odd", "X = 'no framework at all'", "odd = wl_odd:X")
    install(tmp_path, "wl_mpi", MPI, "torch = wl_mpi:MPI", "mpi = wl_mpi:MPI")
    script = """
        from windlass.frameworks import *
        print(json.dumps([framework_names(), find_framework("torch").name]))
    """
    output, complaints = answer(tmp_path, script)
    assert output == [["tensorflow", "torch", "jax", "mpi"], "torch"]
    assert "the framework broken: no MPI here" in complaints


def test_a_plugin_of_an_invalid_form_is_ignored(tmp_path: Path) -> None:
    install(
        tmp_path,
        "wl_forms",
        """
        from windlass.frameworks import Framework

        def environment(cluster, me):
            return {}

        A = Framework(name="a", environment=None)
        B = Framework(name="b", environment=environment, default_role="No Role")
        C = Framework(name="c", environment=environment, roles=5)
        """,
        *(f"{name} = wl_forms:{name.upper()}" for name in "abc"),
    )
    install(tmp_path, "wl_leaves", "raise SystemExit(3)", "leaves = wl_leaves:X")
    script = "from windlass.frameworks import *; print(json.dumps(framework_names()))"
    output, complaints = answer(tmp_path, script)
    assert output == ["tensorflow", "torch", "jax"]
    assert "the framework a: its environment is not a function" in complaints
    assert all(f"the framework {name}: " in complaints for name in ("b", "c", "leaves"))


def test_a_job_fails_with_the_error_of_its_framework(
    project: Project, fresh_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job must not wait forever, or hold its capacity."""
    site = tmp_path / "site"
    site.mkdir()
    install(
        site,
        "wl_failing",
        """
        import threading
        from windlass.frameworks import Framework

        def raises(cluster, me):
            raise RuntimeError("no cluster here")

        def leaves(cluster, me):
            raise SystemExit(3)

        def hangs(cluster, me):
            threading.Event().wait()

        HANGS = Framework(name="hangs", environment=hangs)
        RAISES = Framework(name="raises", environment=raises)
        LEAVES = Framework(name="leaves", environment=leaves)
        JUNK = Framework(name="junk", environment=lambda cluster, me: {"A": 5})
        NOTHING = Framework(name="nothing", environment=lambda cluster, me: None)
        """,
        *(
            f"{name} = wl_failing:{name.upper()}"
            for name in ("raises", "leaves", "junk", "nothing", "hangs")
        ),
    )
    monkeypatch.setenv("PYTHONPATH", str(site))
    project.write(
        "submit.py",
        """
        import json
        import windlass as wl

        told = {}
        for name in ("raises", "leaves", "junk", "nothing", "hangs"):
            job = wl.Job(wl.Command(["true"]), framework=name, backoff_limit=0)
            trial = job.submit().wait(timeout=60)
            told[name] = f"{trial.state}: {trial.cause.message}"
        print(json.dumps(told))
        """,
    )
    done = project.python("submit.py")
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    failed = "FAILED: the framework {} set no environment: "
    assert output["raises"] == failed.format("raises") + "RuntimeError: no cluster here"
    assert output["leaves"] == failed.format("leaves") + "SystemExit: 3"
    assert output["hangs"].startswith(failed.format("hangs") + "TimeoutError: it did not answer")
    assert all(output[name].startswith(failed.format(name)) for name in ("junk", "nothing"))
