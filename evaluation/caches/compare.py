"""Compare the growing cache with litdata's and MosaicML's datasets
and NVIDIA's multi-storage client.

All run at their documented settings, on one disk and source. Each candidate gets the same samples
from a directory that stands for the remote store, writes them to its local cache, and builds
batches with two workers: one epoch from the store, and two more from the cache. Then each is killed
in the middle of its first epoch and started again.

    ./twins exec gil python evaluation/caches/compare.py
    ./twins exec ft python evaluation/caches/compare.py ours-threads ours-processes litdata

The multi-storage client caches only remote stores: "multi-storage" and "ours-s3" read from a server
of S3's protocol (moto's), which is the slowest part of their first epoch.

Missing packages are installed into a temporary folder.
(Not all that streaming needs has wheels for 3.13t.)
"""

import argparse
import importlib
import importlib.metadata
import json
import logging
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
import zlib
from pathlib import Path

from ftrun import overlay
from ftrun.interruption import Interruption
from ftrun.project import normalise

NEEDS = {
    "litdata": ["litdata==0.2.76"],
    "streaming": ["mosaicml-streaming==0.13.0"],
    "multi-storage": ["multi-storage-client[boto3]==1.3.1", "moto[server]==5.2.5"],
    "ours-s3": ["s3fs==2026.9.0", "obstore==0.10.1", "moto[server]==5.2.5"],
}
MODULES = {"litdata": "litdata", "streaming": "streaming", "multi-storage": "multistorageclient"}
KEYS = {"aws_access_key_id": "k", "aws_secret_access_key": "s"}
SERVER = "COMPARE_S3"  # the variable with its address
VALUES = 512 * 1024  # of a sample: 1 MiB of int16
BATCH = 16
LIMIT = 120.0


def sample(number):
    """Return an incompressible sample, which starts with its number."""
    import numpy as np

    values = np.random.default_rng(number).integers(-(2**15), 2**15, VALUES, np.int16)
    values[:2] = np.array([number], np.int32).view(np.int16)
    return values


def write_raw(store, count):
    for number in range(count):
        (store / f"{number:06}").write_bytes(sample(number).tobytes())


def write_litdata(store, count):
    from litdata.streaming.writer import BinaryWriter

    writer = BinaryWriter(str(store), chunk_bytes="64MB")
    for number in range(count):
        writer[number] = sample(number)
    writer.done()
    writer.merge()


def write_streaming(store, count):
    from streaming import MDSWriter

    with MDSWriter(out=str(store), columns={"x": f"ndarray:int16:{VALUES}"}) as writer:
        for number in range(count):
            writer.write({"x": sample(number)})


def write_s3(store, count):
    import boto3

    client = boto3.client("s3", endpoint_url=os.environ[SERVER], region_name="us-east-1", **KEYS)
    client.create_bucket(Bucket="data")
    for number in range(count):
        client.put_object(Bucket="data", Key=f"samples/{number:06}", Body=sample(number).tobytes())
    profile = {
        "caching_enabled": True,
        "storage_provider": {
            "type": "s3",
            "options": {
                "base_path": "data",
                "endpoint_url": os.environ[SERVER],
                "region_name": "us-east-1",
            },
        },
        "credentials_provider": {
            "type": "S3Credentials",
            "options": {"access_key": "k", "secret_key": "s"},
        },
    }
    # By default each opening of a file asks the server whether it has changed,
    # which no other candidate does.
    cache = {
        "size": f"{4 * count * 2 * VALUES >> 20}M",
        "location": str(store.parent / "cache"),
        "check_source_version": False,
    }
    (store / "msc.json").write_text(json.dumps({"profiles": {"store": profile}, "cache": cache}))


def multi_storage(store, cache, count):
    os.environ["MSC_CONFIG"] = str(store / "msc.json")
    import multistorageclient
    import numpy as np
    from torch.utils.data import DataLoader, Dataset

    class Samples(Dataset):
        def __len__(self):
            return count

        def __getitem__(self, index):
            with multistorageclient.open(f"msc://store/samples/{index:06}", "rb") as file:
                return np.frombuffer(file.read(), np.int16)

    warnings.filterwarnings("ignore", ".*not writable")
    # A client takes a second to make: each worker makes one once.
    loader = DataLoader(Samples(), batch_size=BATCH, num_workers=2, persistent_workers=True)
    for _ in range(3):
        yield loader


def ours_s3(_, cache, count):
    from ftloader.cache import UrlSource

    address = {"endpoint_url": os.environ[SERVER], "key": "k", "secret": "s"}
    yield from ours(UrlSource("s3://data/samples", **address), cache, count, "thread")


def ours(store, cache, count, method):
    import numpy as np

    from ftloader import DataLoader
    from ftloader.cache import GrowingCache, RawArray

    with GrowingCache(
        store, cache, max_bytes=4 * count * 2 * VALUES, fetchers=4, decode=RawArray(np.int16),
        min_samples=count,
    ) as dataset:  # fmt: skip
        for epoch in range(3):
            dataset.set_epoch(epoch)
            yield DataLoader(dataset, batch_size=BATCH, num_workers=2, worker_method=method)


def litdata(store, cache, count):
    from litdata import StreamingDataLoader, StreamingDataset

    dataset = StreamingDataset(f"local:{store}", cache_dir=str(cache))
    loader = StreamingDataLoader(dataset, batch_size=BATCH, num_workers=2)
    for _ in range(3):
        yield loader


def streaming(store, cache, count):
    from streaming import StreamingDataset
    from torch.utils.data import DataLoader

    dataset = StreamingDataset(remote=str(store), local=str(cache), batch_size=BATCH)
    loader = DataLoader(dataset, batch_size=BATCH, num_workers=2)
    for _ in range(3):
        yield ((batch["x"]) for batch in loader)


WAYS = {
    "ours-threads": (write_raw, lambda store, *args: ours(f"file://{store}", *args, "thread")),
    "ours-processes": (write_raw, lambda store, *args: ours(f"file://{store}", *args, "process")),
    "litdata": (write_litdata, litdata),
    "streaming": (write_streaming, streaming),
    "multi-storage": (write_s3, multi_storage),
    "ours-s3": (write_s3, ours_s3),
}


def run_one(way, store, cache, count, epochs):
    """Run one candidate, in a process of its own; print a line of JSON for each epoch."""
    import torch

    torch.set_num_threads(1)
    os.environ["LITDATA_DISABLE_VERSION_CHECK"] = "1"
    # Importing is not what is measured.
    importlib.import_module(MODULES.get(way, "ftloader.cache"))
    sums = json.loads((store.parent / "sums.json").read_text())
    begin = time.perf_counter()
    for _, loader in zip(range(epochs), WAYS[way][1](store, cache, count), strict=False):
        seen, wrong = set(), 0
        for batch in loader:
            for one in batch:
                number = int(one[:2].numpy().view("int32")[0])
                seen.add(number)
                if epochs == 1:
                    wrong += zlib.crc32(one.numpy()) != sums[str(number)]
        end = time.perf_counter()
        print(json.dumps({"seconds": end - begin, "seen": len(seen), "wrong": wrong}), flush=True)
        begin = time.perf_counter()


def install(ways, work):
    """Install the packages that the twin lacks, for this process and its children;
    keep the twin's torch.
    """
    installed = {normalise(each.name): each.version for each in importlib.metadata.distributions()}
    wanted = sorted({package for way in ways for package in NEEDS.get(way, ())}) + [
        f"torch=={installed['torch']}"
    ]
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "ft-twins"
    with Interruption() as interruption:
        folder = str(work / "site-packages" / "packages")
        overlay.install(Path(folder), sys.executable, wanted, installed, cache, interruption)
    sys.path.insert(0, folder)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))


def start(way, store, cache, count, epochs):
    command = [
        sys.executable,
        __file__,
        "--one",
        way,
        str(store),
        str(cache),
        str(count),
        str(epochs),
    ]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def end(process, seconds):
    """Wait for a candidate's process; return (its lines, what went wrong)."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return [], "hangs"
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)  # what it has left
        except ProcessLookupError:
            pass
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return lines, "" if process.returncode == 0 else (err.strip().splitlines() or ["no message"])[
        -1
    ][:200]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "ways", nargs="*", default=list(WAYS), help=f"candidates ({', '.join(WAYS)})"
    )
    parser.add_argument("--samples", type=int, default=1024, help="in the store, 1 MiB each")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--directory", help="where the store and the caches are")
    given = parser.parse_args()
    ways = given.ways or list(WAYS)
    with tempfile.TemporaryDirectory(dir=given.directory) as folder:
        work = Path(folder)
        install(ways, work)
        if {"multi-storage", "ours-s3"} & set(ways):
            from moto.server import ThreadedMotoServer

            logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request
            server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
            server.start()
            os.environ[SERVER] = "http://{}:{}".format(*server.get_host_and_port())
        sums = {number: zlib.crc32(sample(number)) for number in range(given.samples)}
        (work / "sums.json").write_text(json.dumps(sums))
        stores = {}
        for way in list(ways):
            writer = WAYS[way][0]
            store = stores[way] = work / writer.__name__
            if not store.exists():
                store.mkdir()
                writer(store, given.samples)
        cache, found = work / "cache", {way: [] for way in ways}
        for number in range(given.rounds):
            for way in random.sample(ways, len(ways)):
                lines, problem = end(start(way, stores[way], cache, given.samples, 3), LIMIT)
                shutil.rmtree(cache, ignore_errors=True)
                found[way].append([line["seconds"] for line in lines])
                print(f"round {number + 1}: {way}: {lines} {problem}", file=sys.stderr, flush=True)
        megabytes = given.samples * 2 * VALUES / 1e6
        print("| | first epoch, MB/s | from the cache, MB/s |\n|---|---:|---:|")
        for way in ways:
            whole = [run for run in found[way] if len(run) == 3]
            if whole:
                cold = [megabytes / run[0] for run in whole]
                warm = [megabytes / statistics.fmean(run[1:]) for run in whole]
                cells = [
                    f"{statistics.median(c):.0f} ({min(c):.0f} to {max(c):.0f})"
                    for c in (cold, warm)
                ]
                print(f"| {way} | {cells[0]} | {cells[1]} |", flush=True)
        for way in ways if given.kills else ():
            outcomes, chance = {}, random.Random(0)
            longest = min((run[0] for run in found[way] if run), default=5.0) + 3.0
            for _ in range(given.kills):
                process = start(way, stores[way], cache, given.samples, 1)
                time.sleep(chance.uniform(1.5, longest))
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                lines, problem = end(start(way, stores[way], cache, given.samples, 1), LIMIT / 2)
                if lines and not problem:
                    line = lines[0]
                    problem = f"{line['wrong']} wrong" if line["wrong"] else ""
                    if line["seen"] != given.samples:
                        problem += f" {given.samples - line['seen']} missing"
                outcomes[problem or "right"] = outcomes.get(problem or "right", 0) + 1
                shutil.rmtree(cache, ignore_errors=True)
            print(f"{way}: after {given.kills} kills: {outcomes}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        way, store, cache, count, epochs = sys.argv[2:]
        run_one(way, Path(store), Path(cache), int(count), int(epochs))
    else:
        main()
