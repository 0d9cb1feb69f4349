"""Rank of a job that trains with Accelerate until it stops,
or goes on from the state of an earlier job.

    torchrun ... resuming_accelerate.py FOLDER STAGE BATCH_SIZE STEPS WAY

The job ends after STEPS steps of epoch 1; 0: it trains the epochs 1 and 2. WAY: "state" for our
sampler and the loader's state, "skip" for skip_first_batches(), "both", or "prepared" for a loader
that Accelerate shares out.
"""

import json
import sys
from pathlib import Path

import torch

import ftloader
from ftloader.distributed import DistributedSampler

ftloader.install()

from accelerate import Accelerator, skip_first_batches  # noqa: E402
from accelerate.data_loader import prepare_data_loader  # noqa: E402

from tests.libraries.resuming import SIZE, Rows  # noqa: E402

folder, stage, batch_size, steps, way = sys.argv[1:]
accelerator = Accelerator(cpu=True)
model = accelerator.prepare(torch.nn.Linear(1, 1))
options = {"generator": torch.Generator().manual_seed(0), "num_workers": 2}
if way in ("state", "both"):
    sampler = DistributedSampler(Rows(SIZE), accelerator.num_processes, accelerator.process_index)
    loader = ftloader.DataLoader(Rows(SIZE), int(batch_size), sampler=sampler, **options)
    loader = prepare_data_loader(
        loader, accelerator.device, num_processes=1, process_index=0, put_on_device=True
    )
else:
    loader = accelerator.prepare(
        ftloader.DataLoader(Rows(SIZE), int(batch_size), shuffle=False, **options)
    )
checkpoint = Path(folder) / "checkpoint.pt"
records, done = [], 0
if stage == "second":
    saved = torch.load(checkpoint)
    model.load_state_dict(saved["model"])
    done = saved["steps"]
    if way != "skip":
        loader.load_state_dict(saved["loader"])
for epoch in 1, 2:
    resumed = stage == "second" and epoch == 1
    batches = skip_first_batches(loader, done) if resumed and way in ("skip", "both") else loader
    expected = len(loader) - (done if resumed else 0)
    batches.set_epoch(epoch)
    count = 0
    for batch in batches:
        accelerator.backward(model(batch[:, None] / SIZE).square().mean())
        records.append([epoch, batch.tolist()])
        count += 1
        if stage == "first" and count == int(steps):
            if accelerator.is_main_process:
                torch.save(
                    {"model": model.state_dict(), "loader": loader.state_dict(), "steps": count},
                    checkpoint,
                )
            break
    if stage == "first":
        break
    assert count == expected, (count, expected)
(Path(folder) / f"{stage}-{accelerator.process_index}.json").write_text(json.dumps(records))
accelerator.wait_for_everyone()
accelerator.end_training()
