"""Rank of a job that trains with Lightning until it stops,
or goes on from the checkpoint of an earlier job.

    torchrun ... resuming_lightning.py FOLDER STAGE BATCH_SIZE STEPS RECIPE

The job ends after STEPS steps of epoch 1; 0: it trains the epochs 1 and 2. RECIPE: "recipe" for the
data module of docs/libraries.md, "loader" for the loader itself.
"""

import json
import os
import sys
import warnings
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from ftloader import DataLoader
from ftloader.distributed import DistributedSampler
from tests.checkout import CHECKOUT
from tests.libraries.resuming import SIZE, Rows
from tests.markdown_files import code_blocks

warnings.filterwarnings("ignore")
recipes = code_blocks((CHECKOUT / "docs" / "libraries.md").read_text(), "python")
names = dict(globals())
exec(next(block for block in recipes if "LightningDataModule" in block), names)

folder, stage, batch_size, steps, way = sys.argv[1:]
RANKS, RANK = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
records = []


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, number):
        if stage == "first" and self.current_epoch == 1 and number == int(steps):
            (Path(folder) / f"{stage}-{RANK}.json").write_text(json.dumps(records))
            torch.distributed.barrier()
            os._exit(0)
        records.append([self.current_epoch, batch.tolist()])
        return self.layer(batch[:, None] / SIZE).square().mean()

    def validation_step(self, batch, number):
        records.append([self.current_epoch, "validated"])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


def trainer(**options):
    return lightning.Trainer(
        accelerator="cpu",
        strategy="ddp",
        devices=RANKS,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        max_epochs=3,
        callbacks=[
            ModelCheckpoint(folder, "epoch{epoch}-step{step}", save_top_k=-1, every_n_train_steps=1)
        ],
        default_root_dir=folder,
        **options,
    )


validation = torch.utils.data.DataLoader(Rows(2))
latest = (
    max(Path(folder).glob("*.ckpt"), key=lambda path: path.stat().st_mtime)
    if stage == "second"
    else None
)
if way == "recipe":
    data = names["Data"](Rows(SIZE), int(batch_size))
    data.val_dataloader = lambda: validation
    trainer(reload_dataloaders_every_n_epochs=1).fit(Model(), datamodule=data, ckpt_path=latest)
else:
    sampler = DistributedSampler(Rows(SIZE), RANKS, RANK)
    loader = DataLoader(
        Rows(SIZE), int(batch_size), sampler=sampler, num_workers=2, worker_method="thread"
    )
    trainer().fit(Model(), loader, validation, ckpt_path=latest)
(Path(folder) / f"{stage}-{RANK}.json").write_text(json.dumps(records))
