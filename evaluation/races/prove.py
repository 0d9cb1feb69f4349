"""Prove that the planted races are real: right samples in one thread and in processes,
wrong ones in threads.

    ./twins exec ft python evaluation/races/prove.py [--seconds 1] [--copies] [--out FILE] [NAME...]

Each dataset is loaded as a loader does: eight threads take batches of eight indices in random
order. The first pass ("natural") counts samples that are wrong, missing or an exception. If it
finds none, a second pass ("paused") inserts random pauses between the bytecodes of the file. The
sound datasets must show nothing.

With --copies each thread has a copy of a map-style dataset, as with DataLoader(copy_dataset=True):
the table then says which races a copy cures.
"""

import argparse
import contextlib
import contextvars
import itertools
import json
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import threading
import time
import warnings
import wave
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from cases import frozen, is_iterable, load
from measure import ROOT, files
from PIL import ImageFile

sys.path.insert(0, str(ROOT / "loader"))
from ftloader import DataLoader  # noqa: E402
from ftloader.compat.torch_private import DatasetKind  # noqa: E402
from ftloader.workers.copies import Copier, UserObjects  # noqa: E402

THREADS, BATCH = 8, 8
STATE = {
    "images_seen": lambda dataset: dataset.seen,
    "running_statistics": lambda dataset: dataset.count,
    "class_counts": lambda dataset: sum(dataset.drawn.values()),
    "counter_under_lock": lambda dataset: dataset.seen,
    "recent_deque": lambda dataset: len(dataset.order),
    "striped_locks": lambda dataset: sum(dataset._uses),
}
"""Datasets that count their loads, and where. The count must be right."""
PAUSED_TOO = {"zip_shared": zipfile.__file__, "wave_reader": wave.__file__}
"""Files that the datasets use and that have the race."""


@contextlib.contextmanager
def settings_kept():
    """Restore the settings of the process that some of the datasets change."""
    folder, dtype, stdout, filters = (
        os.getcwd(),
        torch.get_default_dtype(),
        sys.stdout,
        warnings.filters[:],
    )
    show = warnings.showwarning, warnings._showwarnmsg_impl
    try:
        yield
    finally:
        os.chdir(folder)
        torch.set_default_dtype(dtype)
        sys.stdout = stdout
        warnings.filters[:] = filters
        warnings.showwarning, warnings._showwarnmsg_impl = show
        ImageFile.LOAD_TRUNCATED_IMAGES = False


def fetch(dataset, indices):
    """Load samples as torch's fetcher does, with exceptions in place of samples that raise."""
    if hasattr(dataset, "__getitems__"):
        try:
            return dataset.__getitems__(indices)
        except Exception as error:
            return [error] * len(indices)
    samples = []
    for index in indices:
        try:
            samples.append(dataset[index])
        except Exception as error:
            samples.append(error)
    return samples


def batches_of(dataset, order):
    indices = random.Random(order).sample(range(len(dataset)), len(dataset))
    return list(itertools.batched(indices, BATCH, strict=False))


def check(dataset, expected, batches, faults):
    """Load the batches, and count in `faults` what is wrong."""
    loads = 0
    for indices in batches:
        samples = fetch(dataset, list(indices))
        loads += len(indices)
        for index, sample in zip(indices, samples):
            if isinstance(sample, Exception):
                faults[type(sample).__name__] += 1
            elif frozen(sample) != expected[index]:
                faults["wrong sample"] += 1
    return loads


def count_lost(datasets, path, loads, faults):
    if path.stem not in STATE:
        return
    if lost := abs(loads - sum(map(STATE[path.stem], datasets))):
        faults["lost count"] += lost


def epoch_in_threads(path, expected, order, deadline, copies):
    """Load one epoch in threads until the deadline; return the number of loads and the faults."""
    dataset = load(path)
    datasets = [dataset] * THREADS
    copier = Copier(UserObjects(dataset, list, None), DatasetKind.Map, THREADS) if copies else None
    waiting = iter(batches_of(dataset, order))
    lock, start = threading.Lock(), threading.Barrier(THREADS)
    loads, faults = [0] * THREADS, [Counter() for _ in range(THREADS)]

    def batches():
        while time.monotonic() < deadline:
            with lock:
                indices = next(waiting, None)
            if indices is None:
                return
            yield indices

    def work(number):
        if copier is not None:
            datasets[number] = copier.copy().dataset
        start.wait()
        loads[number] = check(datasets[number], expected, batches(), faults[number])

    # As in the loader, each thread has a copy of this one's context.
    workers = [
        threading.Thread(target=contextvars.copy_context().run, args=(work, number))
        for number in range(THREADS)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    total = sum(faults, Counter())
    count_lost(datasets if copies else [dataset], path, sum(loads), total)
    return sum(loads), total


def epoch_of_stream(dataset, expected, **arguments):
    """Load one epoch of an iterable-style dataset with the loader."""
    loader = DataLoader(
        dataset,
        batch_size=BATCH,
        collate_fn=lambda samples: list(map(frozen, samples)),
        **arguments,
    )
    got, faults = Counter(), Counter()
    try:
        for batch in loader:
            got.update(batch)
    except Exception as error:
        faults[type(error).__name__] += 1
    if wrong := (got - expected).total():
        faults["wrong sample"] = wrong
    return got.total(), faults


def serial(path):
    """Return the right samples, and the faults of a second load
    in another order in the same thread.
    """
    dataset = load(path)
    if is_iterable(dataset):
        expected = Counter(map(frozen, dataset))
        return expected, epoch_of_stream(dataset, expected, num_workers=0)[1]
    expected, faults = [], Counter()
    for index in range(len(dataset)):
        expected.append(frozen(fetch(dataset, [index])[0]))
    loads = len(expected) + check(dataset, expected, batches_of(dataset, 1), faults)
    count_lost([dataset], path, loads, faults)
    return expected, faults


def in_processes(path, expected):
    """Return the faults in two forked workers that load one half each."""
    dataset = load(path)
    if is_iterable(dataset):
        return epoch_of_stream(dataset, expected, num_workers=2, worker_method="process")[1]
    batches, children, faults = batches_of(dataset, 2), [], Counter()
    for half in (batches[::2], batches[1::2]):
        child = os.fork()
        if not child:
            try:
                count_lost([dataset], path, check(dataset, expected, half, faults), faults)
                os._exit(bool(faults))
            finally:
                os._exit(2)
        children.append(child)
    return Counter({"process": sum(os.waitpid(child, 0)[1] != 0 for child in children)})


def pausing(names, share=0.03, longest=0.001):
    """Return a trace function that pauses threads
    at random between the bytecodes of these files.
    """
    dice = random.Random(0)

    def step(frame, event, argument):
        if dice.random() < share:
            time.sleep(dice.random() * longest)
        return step

    def enter(frame, event, argument):
        if frame.f_code.co_filename not in names:
            return None
        frame.f_trace_opcodes = True
        return step

    return enter


def in_threads(path, expected, seconds, rounds, stop_at_fault, copies):
    """Load epochs in threads until the time is up; return loads,
    faults, epochs, and epochs with a fault.
    """
    end = time.monotonic() + seconds
    loads, faults, epochs, bad = 0, Counter(), 0, 0
    while epochs < rounds or time.monotonic() < end:
        with settings_kept():
            if isinstance(expected, Counter):
                some, more = epoch_of_stream(
                    load(path), expected, num_workers=THREADS, worker_method="thread"
                )
            else:
                deadline = time.monotonic() + seconds
                some, more = epoch_in_threads(path, expected, epochs, deadline, copies)
        loads, faults, epochs, bad = loads + some, faults + more, epochs + 1, bad + bool(more)
        if stop_at_fault and bad:
            break
    return {"loads": loads, "faults": dict(faults), "epochs": epochs, "bad_epochs": bad}


def examine(path, seconds, copies, out):
    """Examine a dataset, in a process of its own, which some of the races end."""
    torch.set_num_threads(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what the datasets print
    warnings.simplefilter("ignore")
    result = {}

    def note(**more):
        result.update(more)
        Path(out).write_text(json.dumps(result))

    with settings_kept():
        expected, faults = serial(path)
    note(serial=dict(faults))
    with settings_kept():
        note(processes=dict(+in_processes(path, expected)))
    note(stage="natural")
    if copies and not isinstance(expected, Counter):
        try:
            Copier(UserObjects(load(path), list, None), DatasetKind.Map, THREADS).copy()
        except TypeError as error:
            note(stage="done", uncopied=str(error))
            return
    note(natural=in_threads(path, expected, seconds, 3, False, copies))
    if not result["natural"]["faults"]:
        note(stage="paused")
        threading.settrace(pausing({str(path), PAUSED_TOO.get(path.stem)}))
        longer = 15 if path.parent.name == "planted" else 3
        note(paused=in_threads(path, expected, longer * seconds, 1, True, copies))
        threading.settrace(None)
    note(stage="done")


def run(path, seconds, copies, scratch):
    """Return the result of examine(), also if the process crashed or hung."""
    out = scratch / f"{path.stem}.json"
    process = multiprocessing.get_context("fork").Process(
        target=examine, args=(path, seconds, copies, out)
    )
    process.start()
    process.join(60 + 40 * seconds)
    if process.is_alive():
        process.kill()
        process.join()
        ended = "hung"
    else:
        ended = f"exit status {process.exitcode}" if process.exitcode else ""
    return {**(json.loads(out.read_text()) if out.exists() else {}), "ended": ended}


def verdict(path, result, copies):
    """Return the verdict on a dataset of its folder, and the faults."""
    natural, paused = result.get("natural", {}), result.get("paused", {})
    faults = natural.get("faults") or paused.get("faults") or {}
    crashed = result["ended"] and result.get("stage") in ("natural", "paused")
    if crashed:
        faults = {f"process ended, {result['ended']}": 1}
    if result.get("uncopied"):
        return "no copy", {}
    elsewhere = result.get("serial") or result.get("processes") or (result["ended"] and not crashed)
    if path.parent.name == "sound":
        return "WRONG" if faults or elsewhere else "sound", faults
    if copies and not faults and not elsewhere:
        return "cured", faults
    if elsewhere or not faults:
        return "UNPROVEN", faults
    return "paused" if paused or result.get("stage") == "paused" else "natural", faults


def row(path, result, copies):
    what, faults = verdict(path, result, copies)
    natural = result.get("natural") or {"loads": 0, "faults": {}, "epochs": 0, "bad_epochs": 0}
    share = (
        f"{sum(natural['faults'].values()) / natural['loads']:.2%}" if natural["loads"] else "crash"
    )
    seen = ", ".join(f"{kind} ×{number}" for kind, number in Counter(faults).most_common(4))
    elsewhere = "; ".join(
        f"{key}: {result[key]}" for key in ("serial", "processes") if result.get(key)
    )
    epochs = f"{natural['bad_epochs']}/{natural['epochs']}"
    return (
        f"| {path.parent.name}/{path.stem} | {what} | {share} | {epochs} | {seen} | {elsewhere} |"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="these alone; without: all")
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="how long each is loaded in threads (default: 1)"
    )
    parser.add_argument("--out", type=Path, help="write the table to this file, too")
    parser.add_argument(
        "--copies", action="store_true", help="give each thread a copy of a map-style dataset"
    )
    arguments = parser.parse_args()
    if getattr(sys, "_is_gil_enabled", lambda: True)():
        sys.exit(
            "prove.py needs a free-threaded Python: ./twins exec ft python "
            "evaluation/races/prove.py"
        )
    np.seterr(all="ignore")
    lines = [
        "| dataset | shown | wrong, natural | epochs with a fault | what is seen | elsewhere |",
        "|-|-|-|-|-|-|",
    ]
    print(*lines, sep="\n", flush=True)
    scratch = Path(tempfile.mkdtemp(prefix="races-"))
    tempfile.tempdir = os.environ["TMPDIR"] = str(scratch)
    try:
        for path in files(arguments.names):
            copies = arguments.copies
            lines.append(row(path, run(path, arguments.seconds, copies, scratch), copies))
            print(lines[-1], flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n")
    sys.exit(any("UNPROVEN" in line or "WRONG" in line for line in lines))


if __name__ == "__main__":
    main()
