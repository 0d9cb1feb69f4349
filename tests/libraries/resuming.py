"""The dataset of the jobs that resume, and the program that runs such a job in its ranks."""

import json
import os
import sys
from pathlib import Path

import torch
from torch.utils.data import Dataset

from tests.checkout import CHECKOUT, importable
from tests.programs import completed

SIZE = 61


class Rows(Dataset):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return torch.tensor(float(index))


def run_job(library, ranks, folder, stage, *arguments, status=0):
    """Run resuming_LIBRARY.py in *ranks* processes;
    return (what each rank has written, the output).
    """
    torchrun = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        str(ranks),
    ]
    program = [
        Path(__file__).with_name(f"resuming_{library}.py"),
        folder,
        stage,
        *map(str, arguments),
    ]
    paths = importable(CHECKOUT)
    environment = {
        **os.environ,
        "PYTHONPATH": paths,
        "OMP_NUM_THREADS": "1",
        "TORCHELASTIC_ERROR_FILE": "",
    }
    done = completed([*torchrun, *program], status, env=environment, timeout=280)
    written = [folder / f"{stage}-{rank}.json" for rank in range(ranks)]
    return [
        json.loads(file.read_text()) for file in written if file.exists()
    ], done.stdout + done.stderr
