"""An iterable-style dataset over several files, shared out among the workers by get_worker_info().

Each worker, thread or process, iterates its own copy of the dataset. Without sharing out, each would give all
samples, and the epoch would have every sample once per worker.
"""

import json
import tempfile
from pathlib import Path

from torch.utils.data import IterableDataset, get_worker_info

from ftloader import DataLoader

FILES = 6
RECORDS = 100


def generate(folder: Path) -> None:
    """Write files of JSON lines."""
    for file in range(FILES):
        lines = (
            json.dumps({"id": file * RECORDS + record, "file": file}) for record in range(RECORDS)
        )
        (folder / f"{file}.jsonl").write_text("\n".join(lines))


class JsonLines(IterableDataset):
    """Records of all files. One of N workers reads every N-th file."""

    def __init__(self, folder: Path):
        self.paths = sorted(folder.glob("*.jsonl"))

    def __iter__(self):
        worker = get_worker_info()  # None without workers
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for path in self.paths[first::step]:
            with open(path) as file:
                for line in file:
                    record = json.loads(line)
                    record["worker"] = first
                    yield record


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        for workers in (0, 1, 2):
            loader = DataLoader(JsonLines(Path(folder)), batch_size=20, num_workers=workers)
            ids, files = [], {}
            for batch in loader:
                ids += batch["id"].tolist()
                for worker, file in zip(
                    batch["worker"].tolist(), batch["file"].tolist(), strict=True
                ):
                    files.setdefault(worker, set()).add(file)
            assert sorted(ids) == list(range(FILES * RECORDS)), "a sample is missing or came twice"
            shares = "; ".join(
                f"worker {worker}: files {sorted(files[worker])}" for worker in sorted(files)
            )
            print(f"num_workers={workers}: each of {len(ids)} samples once; {shares}")


if __name__ == "__main__":
    main()
