"""Measure the sustained rate of the cache: samples are fetched and written while a loop reads
batches of them.

    ./twins exec ft python evaluation/caches/sustain.py --directory /dev/shm --rate 600
    ./twins exec ft python evaluation/caches/sustain.py --directory /scratch --rate 100000 --disk

With --disk it first measures the disk alone, by writing the same files with nothing else at work.
It prints a line every ten seconds, and the result at the end. It checks the budget from outside, by
the files of the directory.
"""

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from paced import Paced

from ftloader import DataLoader
from ftloader.cache import GrowingCache
from ftloader.cache.files import disk_usage

LOOK = 0.2


def on_disk(directory):
    total = 0
    for name in os.listdir(directory):
        try:
            total += disk_usage(os.stat(os.path.join(directory, name)))
        except FileNotFoundError:  # evicted in between
            pass
    return total


class Watch(threading.Thread):
    """Thread that finds the largest use of the disk by the directory;
    the only writer of ``most``.
    """

    def __init__(self, directory):
        super().__init__(daemon=True)
        self._directory, self._ended, self.most, self.looks = directory, threading.Event(), 0, 0
        self.start()

    def run(self):
        while not self._ended.wait(LOOK):
            self.most, self.looks = max(self.most, on_disk(self._directory)), self.looks + 1

    def end(self):
        self._ended.set()
        self.join()


def disk_rate(directory, file_bytes, seconds):
    """Return the MB/s of files that are written and synced one after the other;
    the oldest are removed.
    """
    data, written, begin = memoryview(os.urandom(4 << 20)), 0, time.perf_counter()
    names = []
    while (took := time.perf_counter() - begin) < seconds:
        names.append(Path(directory, f"{len(names)}"))
        fd = os.open(names[-1], os.O_WRONLY | os.O_CREAT)
        os.posix_fallocate(fd, 0, file_bytes)
        for at in range(0, file_bytes, len(data)):
            written += os.pwrite(fd, data[: file_bytes - at], at)
        os.fdatasync(fd)
        os.close(fd)
        if len(names) > 16:
            names[-17].unlink()
    for name in names[-16:]:
        name.unlink(missing_ok=True)
    return written / took / 1e6


def run(given, directory):
    source = Paced(int(given.sample * 1e6), given.rate * 1e6)
    watch, taken, bytes_taken, stalls, worst, epochs = Watch(directory), 0, 0, 0.0, 0.0, []
    every, lines = 10.0, []
    began = last = time.perf_counter()
    period = given.batch * given.sample / given.read_rate
    with GrowingCache(
        source,
        directory,
        given.budget * 1e9,
        given.fetchers,
        min_samples=given.batch,
        pin=given.pin,
    ) as cache:
        before, due = cache.statistics(), 0.0
        while time.perf_counter() - began < given.seconds:
            cache.set_epoch(len(epochs))
            epochs.append(len(cache))
            for batch in DataLoader(
                cache,
                given.batch,
                shuffle=True,
                num_workers=given.workers,
                drop_last=True,
                worker_method=given.method,
            ):
                now = time.perf_counter()
                taken, bytes_taken = taken + len(batch), bytes_taken + batch.nbytes
                if due:
                    stalls, worst = stalls + max(0.0, now - due), max(worst, now - due)
                if now < due:
                    time.sleep(due - now)  # the loop's own work: it wants no more than its rate
                due = max(due + period, now) if due else now + period
                if now - last >= every:
                    # Processes read what this process does not count.
                    lines.append(
                        (
                            (cache.statistics() - before).fetched_per_second / 1e6,
                            bytes_taken / (now - last) / 1e6,
                        )
                    )
                    print(
                        f"{now - began:5.0f} s: in {lines[-1][0]:.0f} MB/s, out {lines[-1][1]:.0f} "
                        f"MB/s, epoch of {len(cache)}, stalls {stalls:.2f} s, longest "
                        f"{worst * 1e3:.0f} ms; {cache.statistics()}",
                        flush=True,
                    )
                    before, last, bytes_taken, stalls, worst = cache.statistics(), now, 0, 0.0, 0.0
                if now - began >= given.seconds:
                    break
        whole = cache.statistics()
        source.close()
    watch.end()
    ins, outs = zip(*lines[1:] or lines, strict=True)  # the first has the start in it
    print(
        f"{given.seconds:.0f} s, {len(epochs)} epochs of {min(epochs)} to {max(epochs)} samples of "
        f"{given.sample} MB: in {statistics.median(ins):.0f} MB/s (every ten seconds at least "
        f"{min(ins):.0f}), out {statistics.median(outs):.0f} (at least {min(outs):.0f}); most of "
        f"the disk {watch.most} bytes of {whole.max_bytes} in {watch.looks} looks; "
        f"{time.process_time() / given.seconds:.2f} CPUs; load {os.getloadavg()[0]:.1f}"
    )
    if watch.most > whole.max_bytes:
        sys.exit("the budget was exceeded")
    return statistics.median(ins)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--directory", required=True, help="where the cache is")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--rate", type=float, default=600.0, help="MB/s that the source gives")
    parser.add_argument("--read-rate", type=float, default=600.0, help="MB/s that the loop takes")
    parser.add_argument("--budget", type=float, default=8.0, help="GB")
    # More room for what comes than for what is read,
    # or what comes has to wait for the end of each epoch.
    parser.add_argument(
        "--pin", type=float, default=0.45, help="the part of the budget that an epoch may have"
    )
    parser.add_argument("--sample", type=float, default=1.0, help="MB")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--method", choices=["thread", "process"], default="thread")
    parser.add_argument("--fetchers", type=int, default=4)
    parser.add_argument("--disk", action="store_true", help="compare with what the disk can write")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.directory) as folder:
        alone = (
            disk_rate(folder, int(given.budget * 1e9) // 128, min(60.0, given.seconds))
            if given.disk
            else 0.0
        )
        into = run(given, folder)
    if given.disk:
        print(
            f"the disk alone: {alone:.0f} MB/s, so {into / alone * 100:.0f}% of it through the "
            f"cache"
        )


if __name__ == "__main__":
    main()
