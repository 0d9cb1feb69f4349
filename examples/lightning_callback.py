# /// script
# dependencies = ["lightning>=2.4"]
# ///
"""A callback for Lightning: logs the share of the time that training waited for data, and prints what to change."""

import logging
import time
import warnings

import lightning
import torch
from torch.utils.data import Dataset

from ftloader import DataLoader


class DataWait(lightning.Callback):
    """Callback that logs ``data_wait``, from 0 to 1, and prints the loader's statistics after each epoch."""

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        pl_module.log(
            "data_wait", trainer.train_dataloader.statistics().waited_share, prog_bar=True
        )

    def on_train_epoch_end(self, trainer, pl_module):
        print(f"epoch {trainer.current_epoch}: {trainer.train_dataloader.statistics()}")


class Remote(Dataset):
    """Dataset of 128 samples that wait for 5 ms each, as for a disk or a network."""

    def __len__(self):
        return 128

    def __getitem__(self, index):
        time.sleep(0.005)
        return torch.full((3,), index / 128), torch.tensor([index % 5.0])


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)

    def training_step(self, batch, batch_idx):
        return torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


if __name__ == "__main__":
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", ".*does not have many workers.*")
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=2,
        callbacks=[DataWait()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Model(), DataLoader(Remote(), batch_size=8, shuffle=True, num_workers=2))
    print(f"logged: data_wait={trainer.logged_metrics['data_wait']:.0%}")
