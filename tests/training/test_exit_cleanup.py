"""Processes of distributed training exit cleanly, although a thread of PyTorch still runs."""

from __future__ import annotations

from pathlib import Path

from required_frameworks import needs

import windlass as wl
from harness import PATIENCE, Project

pytestmark = needs("torch")


def test_a_finished_process_is_not_aborted_by_a_gloo_thread(home: Path, project: Project) -> None:
    # Rank 1 joins the last collective only when rank 0 exits. A thread of rank 0 then requests the
    # GIL, which Python holds until its end. Without the cleanup this aborts the process.
    project.write(
        "train.py",
        """
        import atexit
        import os

        if os.environ["RANK"] == "0":
            atexit.register(sum, range(60_000_000))  # runs last, and never lets go of the lock
            atexit.register(lambda: store.set("holding", "yes"))

        from datetime import timedelta

        import torch
        import torch.distributed as dist

        from windlass.integrations.exit_cleanup import part_at_exit

        dist.init_process_group("gloo")
        store = dist.distributed_c10d._get_default_store()
        part_at_exit()
        part_at_exit()
        if dist.get_rank() == 0:
            dist.all_reduce(torch.ones(4), async_op=True)
        else:
            try:
                store.wait(["holding"], timedelta(seconds=1))
            except dist.DistStoreError:
                pass  # rank 0 parts, and waits for this one
            dist.all_reduce(torch.ones(4))
        """,
    )
    job = wl.Job(
        wl.PythonScript(project.path / "train.py"),
        executor=wl.Local(cpus=0.5),
        replicas=2,
        framework="torch",
        restart_policy="Never",
    )
    trial = job.submit()
    trial.wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED", "\n".join(map(str, trial.logs()))


def test_a_failed_function_skips_the_cleanup(home: Path, project: Project) -> None:
    project.write(
        "train.py",
        """
        import windlass as wl


        @wl.run(framework="torch")
        def train():
            import atexit

            import torch.distributed as dist

            from windlass.integrations.exit_cleanup import part_at_exit

            atexit.register(lambda: print("together:", dist.is_initialized()))
            dist.init_process_group("gloo")
            part_at_exit()
            raise ValueError("no data")


        train()
        """,
    )
    done = project.python("train.py")
    assert "ValueError: no data" in done.stderr
    assert "together: True" in done.stdout


def test_a_failed_script_skips_the_cleanup(home: Path, project: Project) -> None:
    project.write(
        "train.py",
        """
        import atexit

        import torch.distributed as dist

        from windlass.integrations.exit_cleanup import part_at_exit

        atexit.register(lambda: print("together:", dist.is_initialized()))
        dist.init_process_group("gloo")
        part_at_exit()
        raise ValueError("no data")
        """,
    )
    job = wl.Job(
        wl.PythonScript(project.path / "train.py"),
        executor=wl.Local(cpus=0.5),
        framework="torch",
        restart_policy="Never",
    )
    trial = job.submit()
    trial.wait(timeout=PATIENCE)
    assert trial.state == "FAILED"
    assert "together: True" in "\n".join(map(str, trial.logs()))
