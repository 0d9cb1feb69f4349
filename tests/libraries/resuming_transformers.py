"""Rank of a job that trains with transformers' Trainer until it stops,
or goes on from an earlier job's checkpoint.

    torchrun ... resuming_transformers.py FOLDER STAGE BATCH_SIZE STEPS

The job ends after STEPS steps of epoch 1; 0: it trains the epochs 1 and 2. Our class is in the
place of torch's.
"""

import json
import os
import sys
from pathlib import Path

import torch

import ftloader

ftloader.install()

from transformers import Trainer, TrainerCallback, TrainingArguments  # noqa: E402

from tests.libraries.resuming import SIZE, Rows  # noqa: E402

folder, stage, batch_size, steps = sys.argv[1:]
records = []


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, rows):
        records.append([int(trainer.state.epoch + 1e-6), rows.tolist()])
        return {"loss": self.layer(rows[:, None] / SIZE).square().mean()}


class Stop(TrainerCallback):
    """Callback that saves a checkpoint after *steps* steps of epoch 1, and ends the job there."""

    def on_step_end(self, args, state, control, **more):
        in_epoch = state.global_step % (state.max_steps // 3)
        control.should_save = control.should_training_stop = state.epoch > 1 and in_epoch == int(
            steps
        )


arguments = TrainingArguments(
    output_dir=folder,
    per_device_train_batch_size=int(batch_size),
    num_train_epochs=3,
    save_strategy="no",
    report_to=[],
    use_cpu=True,
    disable_tqdm=True,
    dataloader_num_workers=2,
    remove_unused_columns=False,
)
trainer = Trainer(
    Model(),
    arguments,
    train_dataset=Rows(SIZE),
    data_collator=lambda rows: {"rows": torch.stack(rows)},
    callbacks=[Stop()] if stage == "first" else [],
)
assert isinstance(trainer.get_train_dataloader(), ftloader.DataLoader)
trainer.train(resume_from_checkpoint=stage == "second")
(Path(folder) / f"{stage}-{os.environ['RANK']}.json").write_text(json.dumps(records))
