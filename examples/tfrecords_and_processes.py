"""The same as growing_cache.py with worker processes: some write TFRecord files, others read those that are complete.

    ./twins exec gil python examples/tfrecords_and_processes.py [SAMPLES EPOCHS]

docs/from-tfrecords.md compares the two.
"""

import multiprocessing
import tempfile
import time
from pathlib import Path

import torch
from growing_cache import EPOCHS, Training, write_samples
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from ftloader.cache import tfrecord


def fetch(remote: Path, cache: Path, share: int) -> None:
    """Write every second sample, 16 to a file, in a process of its own. A complete file gets its name."""
    names = sorted(path.name for path in remote.iterdir())[share::2]
    for first in range(0, len(names), 16):
        path = cache / f"{share}-{first:06}"
        with open(path, "wb") as file:
            for name in names[first : first + 16]:
                data = (remote / name).read_bytes()
                file.write(
                    tfrecord.header(len(data)) + data + tfrecord.footer(tfrecord.crc32c(data))
                )
        path.rename(path.with_suffix(".tfrecord"))


class Records(IterableDataset):
    """Samples of TFRecord files, which the workers share out."""

    def __init__(self, files: list[Path]) -> None:
        self.files = files

    def __iter__(self):
        worker = get_worker_info()
        for path in self.files[worker.id :: worker.num_workers]:
            for record in tfrecord.records(path):
                yield torch.frombuffer(bytearray(record), dtype=torch.float32)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        remote, cache = Path(folder, "remote"), Path(folder, "cache")
        remote.mkdir()
        cache.mkdir()
        write_samples(remote)
        training = Training()
        fetchers = [
            multiprocessing.Process(target=fetch, args=(remote, cache, share)) for share in range(2)
        ]
        for process in fetchers:
            process.start()
        for epoch in range(EPOCHS):
            while not (files := sorted(cache.glob("*.tfrecord"))):
                time.sleep(0.01)
            for batch in DataLoader(Records(files), batch_size=16, num_workers=2):
                training.step(batch)
            training.end_epoch(epoch)
        for process in fetchers:
            process.join()


if __name__ == "__main__":
    main()
