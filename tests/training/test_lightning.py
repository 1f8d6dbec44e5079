"""Real PyTorch Lightning: the callback reports, saves checkpoints, resumes, and stops."""

from __future__ import annotations

from pathlib import Path

import pytest
from callbacks import output_of, run_until_asked_to_stop, steps
from required_frameworks import needs

from harness import Project

pytestmark = needs("lightning")


def test_training_is_recorded_resumes_after_a_restart_and_stops_on_request(
    home: Path, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.path)
    project.write(
        "train.py",
        """
        import os

        import lightning.pytorch as pl
        import torch

        import windlass as wl


        class Model(pl.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(4, 1)

            def training_step(self, batch, index):
                if self.current_epoch == 3 and wl.current_trial().attempt == 1:
                    os.abort()
                loss = self._loss(batch)
                self.log("loss", loss)
                return loss

            def validation_step(self, batch, index):
                self.log("val_loss", self._loss(batch))

            def _loss(self, batch):
                x, y = batch
                return torch.nn.functional.mse_loss(self.layer(x).squeeze(1), y)

            def configure_optimizers(self):
                return torch.optim.Adam(self.parameters())


        def main():
            x = torch.randn(96, 4)
            data = torch.utils.data.TensorDataset(x, x.sum(dim=1))
            loader = torch.utils.data.DataLoader(data, batch_size=16)
            trainer = pl.Trainer(
                max_epochs=100_000, accelerator="cpu", logger=False, log_every_n_steps=3,
                num_nodes=wl.world_size(), devices=1,
                enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                callbacks=[wl.callbacks.lightning()],
            )
            trainer.fit(Model(), loader, loader, ckpt_path=wl.latest_checkpoint())
            print("done in", trainer.world_size)


        if __name__ == "__main__":
            main()
        """,
    )
    trial = run_until_asked_to_stop("train.py", 18, replicas=2, framework="torch")
    # Three batches per epoch: the checkpoint of the third epoch is at step 9.
    assert steps(trial, "loss", attempt=1) == [3, 6, 9]
    second = steps(trial, "loss", attempt=2)
    assert second[:3] == [12, 15, 18], output_of(trial)
    assert set(steps(trial, "validation/loss", attempt=2)) <= set(second)
    assert len(steps(trial, "validation/loss", attempt=2)) >= 2
    saved = sorted(checkpoint.step or 0 for checkpoint in trial.list_checkpoints())
    assert saved[:3] == [3, 6, 9]
    assert saved[-1] == second[-1]
    assert {point.index for point in trial.metrics("loss")} == {0}
    assert output_of(trial).count("done in 2") == 2
