"""A PyTorch script that saves its model and loads data in other processes, as in plain Python."""

from __future__ import annotations

from pathlib import Path

import pytest
from required_frameworks import needs

from harness import Project

pytestmark = needs("torch")


@pytest.mark.finding("U1")
def test_a_script_saves_its_model_and_uses_data_loaders_of_every_kind(
    home: Path, project: Project
) -> None:
    project.write(
        "train.py",
        """
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, Dataset

        import windlass as wl


        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(2, 1)

            def forward(self, x):
                return self.layer(x)


        class Points(Dataset):
            def __len__(self):
                return 4

            def __getitem__(self, index):
                return torch.full((2,), float(index))


        @wl.run
        def train(net):
            torch.save(net, "net.pt")
            again = torch.load("net.pt", weights_only=False)
            sums = []
            for method in ("fork", "spawn"):
                loader = DataLoader(Points(), num_workers=1, multiprocessing_context=method)
                sums.append(sum(float(again(points).sum() * 0 + points.sum()) for points in loader))
            return net, type(again) is Net, sums


        if __name__ == "__main__":
            net, is_same, sums = train(Net())
            print(type(net) is Net, is_same, sums)
        """,
    )
    done = project.python("train.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True True [12.0, 12.0]\n"


@pytest.mark.finding("U1")
def test_an_unguarded_script_saves_its_model(home: Path, project: Project) -> None:
    project.write(
        "train.py",
        """
        import torch
        import windlass as wl


        class Net(torch.nn.Linear):
            pass


        @wl.run
        def train():
            torch.save(Net(2, 1), "net.pt")
            return type(torch.load("net.pt", weights_only=False)) is Net


        print(train())
        """,
    )
    done = project.python("train.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True\n"
