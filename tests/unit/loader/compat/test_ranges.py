"""Ranges in traces: torch.profiler's trace of a real loader, and what a tool that captures NVTX is told."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest
import torch
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile

from ftloader import DataLoader
from ftloader.compat import ranges
from tests.checkout import importable
from tests.extension_modules import compiled

pytestmark = pytest.mark.thread_unsafe(reason="profiles all threads of the process")
ALL_THREADS = {"experimental_config": torch._C._profiler._ExperimentalConfig(profile_all_threads=True)}


class Slow(torch.utils.data.Dataset):
    """40 samples; each takes 2 ms and notes the thread that loads it."""

    def __init__(self):
        self.threads = set()

    def __len__(self):
        return 40

    def __getitem__(self, index):
        self.threads.add(threading.get_native_id())
        time.sleep(0.002)
        return torch.tensor(index)


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        for index in range(20):
            time.sleep(0.002)
            yield torch.tensor(index)


def stacked(samples):
    return torch.stack(samples)


def traced(work, folder, **options):
    """Profile *work* and return the loader's ranges in the trace as (name, thread id, seconds)."""
    with profile(activities=[ProfilerActivity.CPU], **options) as profiler:
        work()
    profiler.export_chrome_trace(str(folder / "trace.json"))
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    return [(e["name"], e["tid"], e["dur"] / 1e6) for e in events if e["name"].startswith("ftloader.")]


def seconds(found, name):
    return sum(length for other, _, length in found if other == name)


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("options", [{}, ALL_THREADS], ids=["this-thread", "all-threads"])
@pytest.mark.parametrize("dataset", [Slow(), Stream()], ids=["map", "iterable"])
def test_without_workers(dataset, options, tmp_path):
    batches = DataLoader(dataset, batch_size=5, collate_fn=stacked)
    found = traced(lambda: list(batches), tmp_path, **options)
    number = len(batches) if dataset.__class__ is Slow else 4
    counts = Counter(name for name, _, _ in found)
    assert counts["ftloader.collate#stacked"] == number
    assert counts[f"ftloader.dataset#{type(dataset).__name__}"] in (number, number + 1)  # and the end of the stream
    assert counts.keys() == {"ftloader.collate#stacked", f"ftloader.dataset#{type(dataset).__name__}"}
    assert {thread for _, thread, _ in found} == {threading.get_native_id()}
    assert seconds(found, f"ftloader.dataset#{type(dataset).__name__}") >= number * 5 * 0.002


@pytest.mark.parametrize("started", ["before", "within"])
@pytest.mark.parametrize("collate_fn", [None, stacked], ids=["slots", "plain"])
def test_worker_threads_have_the_ranges_in_their_own_tracks(collate_fn, started, tmp_path):
    dataset = Slow()
    options = {"persistent_workers": started == "before", "collate_fn": collate_fn, "worker_method": "thread"}
    batches = DataLoader(dataset, batch_size=10, num_workers=2, **options)
    if started == "before":
        list(batches)
        dataset.threads.clear()
    found = traced(lambda: list(batches), tmp_path, **ALL_THREADS)
    loading, waiting = "ftloader.dataset#Slow", "ftloader.wait"
    collating = "ftloader.collate#stacked" if collate_fn else "ftloader.collate#default_collate"
    tracks = {name: {thread for other, thread, _ in found if other == name} for name, _, _ in found}
    assert tracks.keys() == {loading, collating} | (tracks.keys() & {waiting})
    assert tracks[loading] == dataset.threads and threading.get_native_id() not in dataset.threads
    assert tracks[collating] <= dataset.threads
    assert tracks.get(waiting, set()) <= dataset.threads
    assert seconds(found, loading) >= 40 * 0.002


def test_a_worker_that_waits_says_so(tmp_path):
    batches = DataLoader(Slow(), batch_size=10, num_workers=1, prefetch_factor=1, worker_method="thread")

    def loop():
        for _ in batches:
            time.sleep(0.05)

    found = traced(loop, tmp_path, **ALL_THREADS)
    assert seconds(found, "ftloader.wait") > 0.03


def test_a_range_that_outlives_its_profiler_is_not_ended(tmp_path):
    """torch 2.10 would write its end to memory of the first session, which has been freed."""
    begun = []
    assert traced(lambda: begun.append(ranges.waiting()), tmp_path, **ALL_THREADS)
    assert not traced(lambda: begun[0].end(), tmp_path, **ALL_THREADS)
    assert len(ranges._unfinished) == 1
    assert traced(lambda: ranges.waiting().end(), tmp_path, **ALL_THREADS)
    assert ranges._unfinished == []  # not kept forever


def test_without_a_profiler_there_are_no_ranges():
    for running in (False, True, False):
        with profile(activities=[ProfilerActivity.CPU]) if running else contextlib.nullcontext():
            begun = [ranges.loading([]), ranges.collating(stacked), ranges.waiting()]
            assert [each is not None for each in begun] == [running] * 3
            for each in filter(None, reversed(begun)):
                each.end()


# A tool in the place of Nsight Systems: NVTX loads it and lets it replace its functions (nvtx3/nvtxDetail/nvtxInit.h).
TOOL = """
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
typedef void (*function)(void);
typedef struct {
    size_t size;
    int (*module)(int, function ***, unsigned *);
} callbacks;
static int push(const char *name) { printf("push %ld %s\\n", syscall(SYS_gettid), name); return 0; }
static int pop(void) { printf("pop %ld\\n", syscall(SYS_gettid)); return 0; }
int InitializeInjectionNvtx2(const void *(*table)(uint32_t)) {
    const callbacks *found = table(1);
    function **functions;
    unsigned size;
    if (!found || !found->module(1, &functions, &size) || size < 12) return 0;
    setvbuf(stdout, 0, _IOLBF, 0);
    *functions[9] = (function)push;
    *functions[11] = (function)pop;
    return 1;
}
"""
PROGRAM = """
import threading
from ftloader import DataLoader


def kept(samples):
    return samples


if __name__ == "__main__":
    print("loop", threading.get_native_id())
    for number in (0, 2):
        print("workers", number)
        list(DataLoader([3] * 12, batch_size=4, collate_fn=kept, num_workers=number, worker_method="thread"))
"""


@pytest.mark.slow
def test_a_tool_that_captures_nvtx_gets_the_ranges(tmp_path):
    """NVTX needs no GPU, but a torch that was built with CUDA."""
    if not torch.backends.cuda.is_built():
        pytest.skip("this torch was built without CUDA, and so without NVTX")
    tool = compiled(TOOL, tmp_path / "tool.so")
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": importable(), "NVTX_INJECTION64_PATH": str(tool)}
    command = [sys.executable, "-u", tmp_path / "program.py"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, rest = done.stdout.split("workers 0\n")
    serial, threads = rest.split("workers 2\n")
    loop = first.split()[1]
    expected = [
        f"push {loop} ftloader.dataset#list",
        f"pop {loop}",
        f"push {loop} ftloader.collate#kept",
        f"pop {loop}",
    ]
    assert serial.splitlines() == expected * 3
    by_thread = {}
    for line in threads.splitlines():
        kind, thread, *name = line.split()
        by_thread.setdefault(thread, []).append((kind, *name))
    assert loop not in by_thread and 1 <= len(by_thread) <= 2
    names = set()
    for events in by_thread.values():
        assert [kind for kind, *_ in events] == ["push", "pop"] * (len(events) // 2)
        names |= {event[1] for event in events[::2]}
    assert names == {"ftloader.dataset#list", "ftloader.collate#kept", "ftloader.wait"}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", [DataLoader, torch.utils.data.DataLoader])
def test_torchs_range_of_a_batch_is_seen_by_profilers_and_observers(kind, workers, tmp_path):
    """Also by observers that are not profilers."""

    def load():
        assert len(list(kind(Slow(), batch_size=10, num_workers=workers))) == 4

    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        load()
    (of_batch,) = (e for e in profiler.key_averages() if e.key.startswith("enumerate(DataLoader)#"))
    assert of_batch.count == 5 and of_batch.is_user_annotation
    observer = ExecutionTraceObserver().register_callback(str(tmp_path / "trace.json"))
    observer.start()
    load()
    observer.stop()
    observer.unregister_callback()
    nodes = json.loads((tmp_path / "trace.json").read_text())["nodes"]
    assert sum(node["name"] == of_batch.key for node in nodes) == 5
