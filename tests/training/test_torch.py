"""Real PyTorch: DistributedDataParallel over gloo, killed and resumed; torchrun."""

from __future__ import annotations

import re
from pathlib import Path

from required_frameworks import needs

import windlass as wl
from harness import BIN, PATIENCE, Project, eventually
from replicas import check_gone, process_of

pytestmark = needs("torch")
ROOM = wl.Local(cpus=0.5)
STEPS = 16  # of an epoch of the example, in two replicas


def losses(text: str) -> dict[int, float]:
    """The loss of every epoch, as printed."""
    return {
        int(epoch): float(loss) for epoch, loss in re.findall(r"epoch +(\d+)  loss (\S+)", text)
    }


def printed(trial: wl.Trial[None], attempt: int) -> str:
    """The output of rank 0 in one attempt."""
    return "\n".join(map(str, trial.logs(role="worker", index=0, attempt=attempt)))


def test_a_killed_rank_restarts_all_ranks_from_the_checkpoint(
    home: Path, examples: Project
) -> None:
    # In the first attempt rank 1 stays at the start of the second epoch, where rank 0 waits for it
    # in a collective, so that the kill always happens in the middle of training.
    examples.write(
        "train.py",
        """
        import os
        import signal

        import torch_ddp

        train_epoch = torch_ddp.train_epoch


        def train_first_epoch(model, optimizer, batches, epoch):
            if epoch == 2 and os.environ["RANK"] == "1":
                signal.pause()
            return train_epoch(model, optimizer, batches, epoch)


        if os.environ["WINDLASS_ATTEMPT"] == "1":
            torch_ddp.train_epoch = train_first_epoch
        torch_ddp.main()
        """,
    )
    job = wl.Job(
        wl.PythonScript("train.py"),
        args={"epochs": 6},
        replicas=2,
        framework="torch",
        executor=ROOM,
    )
    trial = job.submit()
    eventually(
        lambda: any(trial.list_checkpoints()) or trial.refresh().is_finished,
        "there is a checkpoint",
    )
    assert not trial.is_finished, printed(trial, attempt=1)
    process_of(trial, "worker-1").kill()

    trial.wait(timeout=PATIENCE)
    first, second = printed(trial, attempt=1), printed(trial, attempt=2)
    assert trial.state == "SUCCEEDED", first + second
    assert trial.restarts == 1
    assert [(replica.name, replica.attempt, replica.exit_code) for replica in trial.replicas] == [
        ("worker-0", 2, 0),
        ("worker-1", 2, 0),
    ]
    killed = next(
        attempt for attempt in trial.attempts if (attempt.index, attempt.attempt) == (1, 1)
    )
    assert killed.exit_code == 128 + 9

    assert "world size 2, from step 0\n" in first
    assert f"world size 2, from step {STEPS}\n" in second
    assert (list(losses(first)), list(losses(second))) == ([1], [2, 3, 4, 5, 6])
    assert losses(second)[6] < losses(first)[1] / 2
    check_gone(trial)


def test_a_script_runs_in_two_replicas_from_the_command_line(home: Path, examples: Project) -> None:
    replicas = ("--replicas", "2", "--framework", "torch", "--cpus", "0.5")
    done = examples.run(BIN / "windlass", "run", *replicas, "torch_ddp.py", "--epochs", "3")
    assert done.returncode == 0, done.stderr
    assert "world size 2, from step 0" in done.stdout
    printed_losses = losses(done.stdout)
    assert list(printed_losses) == [1, 2, 3]
    assert printed_losses[3] < printed_losses[1]


def test_a_function_runs_in_every_replica_and_rank_0_has_the_value(
    home: Path, examples: Project
) -> None:
    examples.write(
        "reduce.py",
        """
        import windlass as wl


        @wl.run(replicas=2, framework="torch", cpus=0.5)
        def total(first, second):
            import torch
            import torch.distributed as dist

            dist.init_process_group("gloo")
            assert (dist.get_rank(), dist.get_world_size()) == (wl.rank(), wl.world_size())
            value = torch.tensor([first, second][wl.rank()])
            dist.all_reduce(value)
            dist.destroy_process_group()
            return wl.rank(), value.item()


        print(total(20, 22))
        """,
    )
    done = examples.python("reduce.py")
    assert done.returncode == 0, done.stderr
    assert "(0, 42)" in done.stdout


def test_torchrun_in_every_replica_finds_the_others(home: Path, examples: Project) -> None:
    examples.write(
        "meet.py",
        """
        import torch
        import torch.distributed as dist

        dist.init_process_group("gloo")
        value = torch.tensor(dist.get_rank() + 1)
        dist.all_reduce(value)
        print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {value.item()}")
        dist.destroy_process_group()
        """,
    )
    command = wl.Command(["torchrun", "meet.py"])
    trial = wl.Job(command, replicas=2, framework="torch", executor=ROOM).submit()
    trial.wait(timeout=PATIENCE)
    lines = sorted(str(line) for line in trial.logs(stream="stdout"))
    assert trial.state == "SUCCEEDED", lines
    assert lines == ["rank 0 of 2: 3", "rank 1 of 2: 3"]
