"""Train an autoencoder on random data, in the style of PyTorch Lightning's examples."""

import lightning as L
import torch
from torch import nn, utils


class LitAutoEncoder(L.LightningModule):
    def __init__(self, width=4):
        super().__init__()
        self.save_hyperparameters()
        self.encoder = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, width))
        self.decoder = nn.Sequential(nn.Linear(width, 8), nn.ReLU(), nn.Linear(8, 16))

    def training_step(self, batch, batch_idx):
        (x,) = batch
        loss = nn.functional.mse_loss(self.decoder(self.encoder(x)), x)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


if __name__ == "__main__":
    dataset = utils.data.TensorDataset(torch.rand(256, 16))
    train_loader = utils.data.DataLoader(dataset, batch_size=32, num_workers=1)
    trainer = L.Trainer(max_epochs=2, accelerator="cpu", log_every_n_steps=2)
    trainer.fit(LitAutoEncoder(), train_loader)
