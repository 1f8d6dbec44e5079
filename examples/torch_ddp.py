"""Train a small classifier with PyTorch's DistributedDataParallel in two or more processes.

    windlass run --replicas 2 --framework torch examples/torch_ddp.py --epochs 10

or, in Python,

    script = wl.PythonScript("examples/torch_ddp.py")
    wl.Job(script, args={"epochs": 10}, replicas=2, framework="torch").submit()

Each process reads its rank and the address of rank 0 from environment variables. The
program saves a checkpoint after every epoch. If a process dies, Windlass restarts all processes
and they continue from the newest checkpoint.
"""

from __future__ import annotations

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import windlass as wl


def spirals(points: int = 2048) -> TensorDataset:
    """Return points of two classes that form two spirals. Every process gets the same points."""
    rng = torch.Generator().manual_seed(0)
    label = torch.randint(0, 2, (points,), generator=rng)
    radius = 0.2 + 2.3 * torch.rand(points, generator=rng)
    angle = 2.2 * radius + torch.pi * label
    x = torch.stack([radius * torch.cos(angle), radius * torch.sin(angle)], dim=1)
    return TensorDataset(x + 0.08 * torch.randn(x.shape, generator=rng), label.float())


def train_epoch(
    model: nn.Module, optimizer: torch.optim.Optimizer, batches: DataLoader, epoch: int
) -> float:
    """Train on this process's share of the data and return the mean loss over all processes."""
    batches.sampler.set_epoch(epoch)  # a new order for each epoch, the same in all processes
    total = torch.zeros(1)
    for x, label in batches:
        loss = nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
    dist.all_reduce(total)
    return float(total / len(batches) / dist.get_world_size())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.02)
    options = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")  # reads the address of rank 0 from the environment
    rank, world_size = dist.get_rank(), dist.get_world_size()

    model = nn.Sequential(
        nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)
    )
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(ddp.parameters(), lr=options.lr)
    data = spirals()
    batches = DataLoader(data, batch_size=64, sampler=DistributedSampler(data))

    done = 0
    checkpoint = wl.latest_checkpoint()
    if checkpoint is not None:
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        done = saved["epoch"]
    if rank == 0:
        print(f"world size {world_size}, from step {done * len(batches)}")

    for epoch in range(done + 1, options.epochs + 1):
        loss = train_epoch(ddp, optimizer, batches, epoch)
        if rank == 0:
            print(f"epoch {epoch:2}  loss {loss:.4f}")
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({**state, "epoch": epoch}, "checkpoint.pt")
            wl.save_checkpoint("checkpoint.pt", step=epoch * len(batches))

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
