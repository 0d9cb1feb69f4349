"""Compare this loader with torch's, a bare loop and plain collation:
images, and samples of several shapes.

    ./twins exec ft python evaluation/loader/measure.py [CASE ...]

Candidates take turns of one epoch, in random order. They have two workers, "serial" none and "64"
64. Candidates of one twin run in one process, so that they share its accidents (malloc's memory,
    caches, addresses). Those of torch, which
may fork, have another. All is repeated in several processes. A line has the median, the lowest and
the highest of the processes' medians, and the same of each process's ratio to the first candidate.
"fresh" makes an iterator for each epoch, the others have persistent workers. "plain" has a
collate_fn that only calls torch's default_collate.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch

from ftbench.data.images import default_images
from ftbench.measure.loaders import BareLoop
from ftbench.scenarios.pillow import DecodedImages, PillowDataset
from ftloader import DataLoader
from ftloader.batch.memory import keep_freed_memory

TWINS = Path(__file__).resolve().parents[2] / "twins"
WORKERS = 2
KB = 1000
PIXELS = 640 * 408 * 3


class Repeated(torch.utils.data.Dataset):
    """Dataset of *length* samples; sample i is *make*(i)."""

    def __init__(self, length, make):
        self._length, self._make = length, make

    def __len__(self):
        return self._length

    def __getitem__(self, index):
        return self._make(index)


class Images(torch.utils.data.Dataset):
    """The benchmark's images, repeated."""

    def __init__(self, length, kind):
        self._length, self._images = (
            length,
            kind([str(path) for path in default_images(lambda *_: None)]),
        )

    def __len__(self):
        return self._length

    def __getitem__(self, index):
        return self._images[index % len(self._images)]


def leaves(count, nbytes):
    """Make samples of *count* of eight arrays, in turn,
    so that the working set is the same for any count.
    """
    arrays = [np.full((nbytes,), leaf, np.uint8) for leaf in range(8)]
    samples = [tuple(arrays[first : first + count]) for first in range(0, 8, count)]
    return lambda index: samples[index % len(samples)] if count > 1 else arrays[index % 8]


def tensors(count, nbytes):
    rows = [torch.full((nbytes // 4,), float(leaf)) for leaf in range(count)]
    return lambda index: tuple(rows) if count > 1 else rows[0]


def integers(index):
    return index


def ragged(batch_size):
    rows = [torch.zeros(10_240 + 1024 * (step * 7 % 21)) for step in range(21)]
    return lambda index: rows[index // batch_size % 21]


def scalars(index):
    return {"label": index, "weight": float(index), "weights": (index, 1.0), "name": "sample"}


def batches(batch_size, nbytes, in_all):
    """Return the number of batches that make *in_all* bytes, at most 3,000."""
    return min(3000, max(8, int(in_all / batch_size / nbytes)))


def case(batch_size, make, nbytes, in_all=3e9):
    return batch_size, batches(batch_size, nbytes, in_all), make, nbytes


# name: batch size, batches of an epoch, what makes a sample, its bytes
SAMPLES = {
    **{
        f"{count} of {size} kB": case(32, leaves(count, size * KB), count * size * KB)
        for size in (100, 1000)
        for count in (1, 2, 4, 8)
    },
    **{
        f"{count} x {size} kB": case(64, tensors(count, size * KB), count * size * KB)
        for size in (1, 4, 16, 48, 96, 150)
        for count in (1, 4)
    },
    "ragged": case(64, ragged(64), 80 * KB),
    "scalars": case(64, scalars, 32),
    "integers": case(64, integers, 8),
    "pillow-128": case(128, None, PIXELS, 12 * 128 * PIXELS),
    "pillow-512": case(512, None, PIXELS, 12 * 512 * PIXELS),
}
IMAGES = [
    ("loop", "ft"), ("ours", "ft"), ("fresh", "ft"), ("decode", "ft"),
    ("ours", "gil"), ("fresh", "gil"), ("torch", "gil"), ("torch-fresh", "gil"),
]  # fmt: skip
INTEGERS = [("torch-serial", "ft"), ("serial", "ft"), ("ours", "ft"), ("64", "ft"),
            ("torch-serial", "gil"), ("serial", "gil")]  # fmt: skip
# name: the candidates, which are a sample's name, a way to load it and a twin
CASES = {
    "pillow-128": [("pillow-128", *each) for each in IMAGES],
    "pillow-512": [("pillow-512", *each) for each in IMAGES],
    "arrays of 100 kB": [(f"{count} of 100 kB", "ours", "ft") for count in (1, 2, 4, 8)],
    "arrays of 1 MB": [(f"{count} of 1000 kB", "ours", "ft") for count in (1, 2, 4, 8)],
    **{
        name: [(name, "plain", "ft"), (name, "ours", "ft")]
        for name in SAMPLES
        if " x " in name or name in ("ragged", "scalars")
    },
    "integers": [("integers", *each) for each in INTEGERS],
}


def plain_collate(samples):
    """Collate as torch does; a function other than default_collate itself gets no slots."""
    return torch.utils.data.default_collate(samples)


def candidate(name, way):
    """Return a function that starts an epoch of these samples, and one that ends the candidate."""
    batch_size, number, make, _ = SAMPLES[name]
    if make is None:
        dataset = Images(batch_size * number, DecodedImages if way == "decode" else PillowDataset)
    else:
        dataset = Repeated(batch_size * number, make)
    workers = 0 if "serial" in way else 64 if way == "64" else WORKERS
    given = {
        "batch_size": batch_size,
        "num_workers": workers,
        "persistent_workers": workers > 0 and "fresh" not in way,
    }
    if way == "loop":
        loop = BareLoop(dataset, WORKERS, batch_size)
        return lambda: loop.epoch(len(dataset)), loop.close
    if way.startswith("torch"):
        loader = torch.utils.data.DataLoader(dataset, **given)
    else:
        collate = {"collate_fn": plain_collate} if way == "plain" else {}
        loader = DataLoader(dataset, worker_method="thread", **given, **collate)
    return lambda: iter(loader), lambda: None


def child():
    """Run an epoch of the candidate that a line of the input names;
    print the times of it and its first batch.
    """
    torch.set_num_threads(1)
    keep_freed_memory()  # as the loader does, so that the others have the same
    candidates = {}
    for line in sys.stdin:
        one = tuple(json.loads(line))
        if one not in candidates:
            candidates[one] = candidate(*one)
        begin, first = time.perf_counter(), None
        for _ in candidates[one][0]():
            first = first or time.perf_counter() - begin
        print(json.dumps([time.perf_counter() - begin, first]), flush=True)
    for _, end in candidates.values():
        end()


def epoch(process, name, way):
    """Let a child run an epoch of a candidate; return the times (s) of it and its first batch."""
    process.stdin.write(json.dumps([name, way]) + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def measure(candidates, rounds):
    """Return each candidate's median times (s) of an epoch and of its first batch,
    in one set of processes.
    """
    children = {
        process: subprocess.Popen(
            [TWINS, "exec", process[0], "python", __file__, "--child"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for process in {process_of(way, twin) for _, way, twin in candidates}
    }  # fmt: skip

    def turn(one):
        name, way, twin = one
        return epoch(children[process_of(way, twin)], name, way)

    turns = {one: [] for one in candidates}
    try:
        for number in range(rounds + 2):  # the first two are not counted
            for one in random.sample(candidates, len(candidates)):
                took = turn(one)
                if number >= 2:
                    turns[one].append(took)
    finally:
        for each in children.values():
            each.stdin.close()
            each.wait()
    return {
        one: [statistics.median(each) for each in zip(*of_one, strict=True)]
        for one, of_one in turns.items()
    }


def process_of(way, twin):
    return twin, way if way.startswith("torch") else "ours"


def rate(of_one, one):
    """Return the bytes a second of the candidate *one* in one set of processes."""
    batch_size, number, _, nbytes = SAMPLES[one[0]]
    return batch_size * number * nbytes / of_one[one][0]


def spread(values, form):
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{form.format(middle)} ({form.format(low)} to {form.format(high)})"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", default=list(CASES), help="; ".join(CASES))
    parser.add_argument(
        "--rounds", type=int, default=7, help="turns of each candidate in each process (default: 7)"
    )
    parser.add_argument(
        "--processes",
        type=int,
        default=4,
        help="of each candidate, one after the other (default: 4)",
    )
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child()
        return
    print(
        "| sample | candidate | samples/s | GB/s | GB/s, first = 1 | first batch, s | first = 1 |"
    )
    print("|---|---|---:|---:|---:|---:|---:|")
    for case_name in given.cases:
        candidates = CASES[case_name]
        processes = [measure(candidates, given.rounds) for _ in range(given.processes)]
        for one in candidates:
            name, way, twin = one
            nbytes = SAMPLES[name][3]
            first = [of_one[one][1] for of_one in processes]
            rates = [rate(of_one, one) for of_one in processes]
            ratios = [rate(of_one, one) / rate(of_one, candidates[0]) for of_one in processes]
            firsts = [of_one[one][1] / of_one[candidates[0]][1] for of_one in processes]
            print(
                f"| {name} | {way}, {twin} | "
                f"{spread([each / nbytes for each in rates], '{:,.0f}')} "
                f"| {statistics.median(rates) / 1e9:.2f} | {spread(ratios, '{:.2f}')} "
                f"| {spread(first, '{:.3f}')} | {spread(firsts, '{:.2f}')} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
