"""Resume in the middle of an epoch after the training program was killed.

The program starts itself as a child process. The child trains, saves a checkpoint every 5 batches, and kills
itself with SIGKILL after 13. A second child loads the checkpoint and trains the rest of the epoch.
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch.utils.data import Dataset

from ftloader import DataLoader

SAMPLES = 200
KILLED_AFTER = 13


class Numbers(Dataset):
    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return index


def train(checkpoint: Path, workers: int) -> None:
    """Train for one epoch. The "model" is the list of the samples that it was trained with."""
    loader = DataLoader(Numbers(), batch_size=8, shuffle=True, num_workers=workers)
    model = []
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        model = saved["model"]
        loader.load_state_dict(saved["loader"])
        print(
            f"resumed with num_workers={workers}: the checkpoint's model has seen {len(model)} samples",
            flush=True,
        )
    resumed = bool(model)
    for step, batch in enumerate(loader, 1):
        model += batch.tolist()
        if step % 5 == 0:
            # Model and loader in one file, which takes the old one's place in one step: they always belong together.
            torch.save(
                {"model": model, "loader": loader.state_dict()}, checkpoint.with_suffix(".new")
            )
            os.replace(checkpoint.with_suffix(".new"), checkpoint)
        if step == KILLED_AFTER and not resumed:
            print(f"killed after {step} batches, {len(model)} samples", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
    once = sorted(model) == list(range(SAMPLES))
    print(
        f"the epoch is complete: {len(model)} samples, each of the {SAMPLES} once: {once}",
        flush=True,
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for workers in (2, 1):  # the number of workers may change
            child = subprocess.run(
                [sys.executable, __file__, str(Path(folder) / "checkpoint.pt"), str(workers)]
            )
            print(f"the child ended with exit status {child.returncode}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(Path(sys.argv[1]), int(sys.argv[2]))
    else:
        main()
