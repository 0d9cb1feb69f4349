"""Measure a store whose first byte comes late: by fetching threads and by worker processes, with
their CPU time.

    ./twins exec ft python evaluation/caches/late.py
    ./twins exec gil python evaluation/caches/late.py

A web server in its own process sends samples of 100 kB after --delay seconds. "cache" is the
fetchers of a GrowingCache, which also writes them. "fsspec" is torch's DataLoader, whose processes
call fsspec, as in the benchmark's scenario `latency-fsspec`. "own" is the same with the client of
the cache. CPU times leave the server out.
"""

import argparse
import random
import resource
import statistics
import sys
import tempfile
import time
import warnings

import torch
from torch.utils.data import DataLoader, Dataset

from ftbench.data.slow_server import content, slow_server
from ftloader.cache import GrowingCache, UrlSource

SIZE = 100_000


class Remote(Dataset):
    def __init__(self, source, count):
        self.source, self.count = source, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.frombuffer(bytearray(self.source.read(f"samples/{index}")), dtype=torch.uint8)


def cache(address, count, workers, folder):
    keys = [f"samples/{number}" for number in range(count)]
    with GrowingCache(
        UrlSource(address, keys), folder, 8 * count * SIZE, workers, min_samples=count, pin=0.9
    ) as dataset:  # fmt: skip
        dataset.set_epoch(0)
        index = count // 2
        assert dataset[index].tobytes() == content(int(dataset.key(index).split("/")[1]), SIZE)


def processes(source, count, workers):
    seen = sum(map(len, DataLoader(Remote(source, count), batch_size=8, num_workers=workers)))
    assert seen == count


WAYS = {
    "cache": cache,
    "fsspec": lambda address, count, workers, _: processes(
        UrlSource(address, block_size=1 << 20), count, workers
    ),
    "own": lambda address, count, workers, _: processes(UrlSource(address), count, workers),
}


def cpu():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ways", nargs="*", default=list(WAYS))
    parser.add_argument("--delay", type=float, default=0.005, help="seconds")
    parser.add_argument("--samples", type=int, default=2048)
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 8, 32])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", help="where the cache is")
    given = parser.parse_args()
    print(
        "| GIL | way | workers | samples/s | CPU seconds for 1,000 samples |\n"
        "|---|---|---:|---:|---:|"
    )
    warnings.filterwarnings("ignore", ".*worker processes in total")
    with slow_server(given.delay, SIZE) as server:
        with tempfile.TemporaryDirectory(dir=given.directory) as folder:
            cache(server, given.samples, 8, folder)  # the server makes its samples
        for workers in given.workers:
            found = {way: [] for way in given.ways}
            for _ in range(given.rounds):
                for way in random.sample(given.ways, len(given.ways)):
                    with tempfile.TemporaryDirectory(dir=given.directory) as folder:
                        began, used = time.perf_counter(), cpu()
                        WAYS[way](server, given.samples, workers, folder)
                        found[way].append(
                            (
                                given.samples / (time.perf_counter() - began),
                                (cpu() - used) / given.samples * 1000,
                            )
                        )
            for way in given.ways:
                rates, costs = zip(*found[way], strict=True)
                print(
                    f"| {sys._is_gil_enabled()} | {way} | {workers} | "
                    f"{statistics.median(rates):.0f} ({min(rates):.0f} to {max(rates):.0f}) | "
                    f"{statistics.median(costs):.2f} ({min(costs):.2f} to {max(costs):.2f}) |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
