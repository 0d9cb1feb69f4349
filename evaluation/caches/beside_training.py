"""Measure what fetching costs a training loop: the time of its steps while samples come in, and
while none do.

    ./twins exec ft python evaluation/caches/beside_training.py --directory /dev/shm

Steps in plain Python, or of a small network with one thread of torch, are timed in turns of half a
second: one with an idle cache, one with fetching at each rate, in random order. --cpus 2 leaves a
core to the fetchers, --cpus 1 none.
"""

import argparse
import os
import random
import statistics
import sys
import tempfile
import time

from paced import Paced

from ftloader.cache import GrowingCache


def python_step():
    from ftbench.scenarios.interference import PythonStep

    return PythonStep()


def torch_step():
    import torch

    from ftbench.scenarios.overlap import TorchStep

    torch.set_num_threads(1)
    step, batch = TorchStep(), torch.zeros(1 << 16, dtype=torch.uint8)
    return lambda: step(batch, 8)


def percentile(values, share):
    return sorted(values)[int(share * (len(values) - 1))]


def turn(step, seconds):
    times, end = [], time.perf_counter() + seconds
    while (begin := time.perf_counter()) < end:
        step()
        times.append((time.perf_counter() - begin) * 1e3)
    return times


def queued():
    """Return the seconds that this thread was runnable while others had the CPU."""
    with open("/proc/thread-self/schedstat") as file:
        return int(file.read().split()[1]) / 1e9


def interval(one, other, measure):
    """Return the change in percent, with the 95% interval of resampled turns,
    which come in pairs.
    """
    chance, pairs = random.Random(0), list(zip(one, other, strict=True))

    def ratio(some):
        a, b = ([value for turn in side for value in turn] for side in zip(*some, strict=True))
        return (measure(a) / measure(b) - 1) * 100

    all_of_it = sorted(ratio(chance.choices(pairs, k=len(pairs))) for _ in range(200))
    return f"{ratio(pairs):+.1f}% ({all_of_it[5]:+.1f} to {all_of_it[194]:+.1f})"


def measure(step, given, directory):
    source = Paced(int(given.sample * 1e6), 0)
    rates = [0, *given.rates]
    times, waits, moved = ({rate: [] for rate in rates} for _ in range(3))
    options = dict(option.split("=") for option in given.option)
    with GrowingCache(
        source, directory, given.budget * 1e9, given.fetchers, min_samples=0,
        **{name: float(value) for name, value in options.items()},
    ) as cache:  # fmt: skip
        turn(step, 1.0)
        for epoch in range(given.turns):
            for rate in random.sample(rates, len(rates)):
                cache.set_epoch(epoch)  # makes room
                source.set_rate(rate * 1e6)
                turn(step, given.seconds / 4)
                before, waited = cache.statistics(), queued()
                times[rate].append(turn(step, given.seconds))
                waits[rate].append((queued() - waited) / given.seconds)
                moved[rate].append((cache.statistics() - before).fetched_per_second / 1e6)
                source.set_rate(0)
        source.close()
    for rate in rates:
        if rate:
            print(
                f"| {given.step} | {given.cpus} | {rate:.0f} | "
                f"{statistics.median(moved[rate]):.0f} "
                f"| {interval(times[rate], times[0], statistics.median)} "
                f"| {interval(times[rate], times[0], lambda values: percentile(values, 0.99))} "
                f"| {statistics.mean(waits[0]) * 100:.1f}% | "
                f"{statistics.mean(waits[rate]) * 100:.1f}% |",
                flush=True,
            )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--step", choices=["python", "torch"], default="python")
    parser.add_argument("--cpus", type=int, default=2, help="that the program may use")
    parser.add_argument(
        "--rates", type=float, nargs="+", default=[150.0, 300.0, 600.0], help="MB/s to fetch"
    )
    parser.add_argument("--turns", type=int, default=30, help="of each rate")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn")
    parser.add_argument("--sample", type=float, default=1.0, help="MB")
    parser.add_argument("--fetchers", type=int, default=4)
    parser.add_argument("--budget", type=float, default=4.0, help="GB")
    parser.add_argument("--directory", help="where the cache is")
    parser.add_argument(
        "--option", action="append", default=[], help="NAME=NUMBER, for GrowingCache"
    )
    given = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: given.cpus])
    step = {"python": python_step, "torch": torch_step}[given.step]()
    print(
        f"GIL {sys._is_gil_enabled()}, load {os.getloadavg()[0]:.1f}, {given.option}",
        file=sys.stderr,
    )
    print(
        "| step | CPUs | asked for, MB/s | fetched, MB/s | median step | p99 of steps | "
        "queued, idle | queued |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory(dir=given.directory) as folder:
        measure(step, given, folder)


if __name__ == "__main__":
    main()
