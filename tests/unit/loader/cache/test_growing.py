"""The dataset: epochs, reading by a loader, start and end."""

import dataclasses
import gc
import os
import pickle
import signal
import threading
import time
import weakref

import numpy as np
import pytest
import torch
from torch.utils.data import WeightedRandomSampler

from ftloader import DataLoader, fork
from ftloader.cache import CacheError, CorruptSampleError, GrowingCache, RawArray, fetchers
from tests.checkout import CHECKOUT
from tests.unit.loader.cache.sources import (
    Failing,
    Numbered,
    check,
    check_whole,
    content,
    keys_of,
    until,
)


def test_an_epoch_is_what_was_complete_when_it_was_set(opened):
    gate = threading.Event()
    cache = opened(Numbered(40, gate=gate), min_samples=10)
    assert len(cache) == 0 and cache.epoch == -1
    gate.set()
    cache.set_epoch(0)
    before = keys_of(cache)
    assert 10 <= len(cache) <= 40 and cache.epoch == 0
    until(cache, lambda now: now.samples == 40)
    assert keys_of(cache) == before
    check(cache)
    check_whole(cache, Numbered(40), 1)
    with pytest.raises(IndexError):
        cache[40]


def test_nothing_is_fetched_twice(opened, ready):
    source = Numbered(40)
    cache = opened(source, fetchers=4, min_samples=40)
    for epoch in range(3):
        cache.set_epoch(epoch)
    cache.close()
    assert sorted(source.reads) == sorted(source.keys())
    again = Numbered(45)
    cache = ready(again, min_samples=45)
    check(cache)
    assert sorted(again.reads) == [f"sample {number}" for number in range(40, 45)]


@pytest.mark.parametrize("method", ["thread", "process"])
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.slow
def test_a_loader_reads_the_epoch(ready, method, persistent):
    cache = ready(Numbered(30))  # torch's sampler refuses an empty dataset
    loader = DataLoader(
        cache,
        batch_size=4,
        shuffle=True,
        num_workers=2,
        worker_method=method,
        persistent_workers=persistent,
    )
    for epoch in range(2):
        cache.set_epoch(epoch)
        if epoch and persistent and method == "process":
            with pytest.raises(CacheError, match="persistent_workers=False"):
                list(loader)
            break
        samples = [row.numpy().tobytes() for batch in loader for row in batch]
        assert sorted(samples) == sorted(content(key, 1000) for key in Numbered(30).keys())
    del loader
    gc.collect()


def test_a_copy_by_pickle_reads_and_writes_nothing(opened):
    cache = opened(Numbered(6), min_samples=6)
    cache.set_epoch(4)
    copy = pickle.loads(pickle.dumps(cache))
    check(copy)
    assert keys_of(copy) == keys_of(cache) and copy.epoch == 4
    with pytest.raises(CacheError, match="not for its workers"):
        copy.set_epoch(5)
    copy.close()
    cache.set_epoch(5)


@pytest.mark.slow
def test_a_forked_child_reads_and_leaves_the_rest_alone(ready):
    cache = ready(Numbered(None), min_samples=50)
    child = os.fork()
    if not child:
        signal.alarm(600)  # if the test gives up on it
        status = 1
        try:
            check(cache)
            cache.close()
            del cache
            gc.collect()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    fetched = cache.statistics().fetched
    cache.set_epoch(1)
    until(cache, lambda now: now.fetched > fetched)


@pytest.mark.slow
def test_old_samples_make_place_and_epochs_stay_readable(opened):
    cache = opened(Numbered(None, size=20_000), max_bytes=1 << 20, fetchers=3)
    seen = set()
    for epoch in range(12):
        cache.set_epoch(epoch)
        seen.update(keys_of(cache))
        # all that fits is there, what was evicted is evicted
        until(cache, lambda _: cache._writer.store.full)
        check(cache)
        assert len(cache) * 20_000 <= 1 << 19
    now = cache.statistics()
    assert now.evictions > 5 and len(seen) > 100 and now.bytes_used <= now.max_bytes == 1 << 20
    assert now.fetchers_waited > 0 and "in 0 MB/s" not in str(dataclasses.replace(now, seconds=1.0))


def test_all_of_a_source_that_fits_is_an_epoch(opened, ready):
    cache = ready(Numbered(50, size=60_000), max_bytes=4 << 20, pin=0.9)
    until(cache, lambda _: cache._writer.fetchers.complete)
    cache.set_epoch(1)
    assert len(cache) == 50
    cache.close()
    half = opened(Numbered(50, size=60_000), max_bytes=4 << 20)
    until(half, lambda _: half._writer.fetchers.complete)
    half.set_epoch(0)  # complete, so more than half of the budget
    assert len(half) == 50


def test_a_source_that_grows_is_listed_again_with_each_epoch(ready):
    source = Numbered(3)
    cache = ready(source, min_samples=3)
    source.count = 5
    cache.set_epoch(1)
    until(cache, lambda now: now.samples == 5)
    cache.set_epoch(2)
    assert len(cache) == 5


def test_at_most(opened):
    cache = opened(Numbered(30), min_samples=30)
    cache.set_epoch(0, at_most=7)
    assert len(cache) == 7 and len(keys_of(cache)) == 7
    with pytest.raises(IndexError):
        cache[7]


def test_more_samples_than_there_will_be(opened):
    cache = opened(Numbered(3), min_samples=4)
    with pytest.raises(
        CacheError, match="3 samples are there, and min_samples=4: the source has no more"
    ):
        cache.set_epoch(0)
    large = opened(Numbered(None, size=100_000), "large", max_bytes=1 << 20, min_samples=20)
    with pytest.raises(CacheError, match="no more fit. Take a larger max_bytes"):
        large.set_epoch(0)


def test_decode(ready):
    cache = ready(Numbered(4), decode=lambda data: (type(data), len(data)))
    assert cache[2] == (bytes, 1000)


def test_raw_arrays_are_read_into_the_batch(ready):
    size = 1 << 18
    cache = ready(
        Numbered(8, size=size), max_bytes=64 << 20, decode=RawArray(np.float32, (256, 256))
    )
    loader = DataLoader(cache, batch_size=4, num_workers=2, worker_method="thread")
    batches = list(loader) + list(loader)
    assert [batch.shape for batch in batches] == [(4, 256, 256)] * 4 and batches[
        0
    ].dtype == torch.float32
    rows = [row.numpy().tobytes() for batch in batches for row in batch]
    assert rows == [content(key, size) for key in keys_of(cache)] * 2
    wrong = ready(Numbered(1), "wrong", decode=RawArray(np.float32, (7,)))
    with pytest.raises(CacheError, match="1000 bytes is no array of float32"):
        wrong[0]
    assert RawArray(np.int16)(b"\1\0\2\0").tolist() == [1, 2]


@pytest.mark.parametrize(
    ("empty", "error"),
    [
        (lambda nbytes: np.empty((20, nbytes // 20), np.uint8).T, "not contiguous"),
        (lambda nbytes: np.empty(nbytes + 1, np.uint8), "has 1000 bytes, and the array 1001"),
    ],
)
def test_a_decoder_whose_arrays_cannot_be_filled(ready, empty, error):
    class Odd:
        def empty(self, nbytes):
            return empty(nbytes)

    source = Numbered(3)
    cache = ready(source, min_samples=3, decode=Odd())
    with pytest.raises(CacheError, match=error) as caught:
        cache[0]
    assert not isinstance(caught.value, CorruptSampleError)
    cache.set_epoch(1)
    assert len(source.reads) == len(cache) == 3  # nothing was given up


def test_a_state_gives_the_same_snapshot_after_a_restart(opened, tmp_path):
    cache = opened(Numbered(30), min_samples=20)
    cache.set_epoch(3)
    keys, state = keys_of(cache), cache.state_dict()
    cache.close()
    cache = opened(Numbered(60), min_samples=1)
    until(cache, lambda now: now.samples == 60)
    cache.set_epoch(3)
    assert len(cache) > len(keys)
    cache.load_state_dict(state)
    assert keys_of(cache) == keys and cache.epoch == 3
    check(cache)


def test_a_loader_s_state_brings_its_snapshot(ready):
    cache = ready(Numbered(30))
    loader = DataLoader(cache, batch_size=4, shuffle=True, num_workers=2, worker_method="thread")
    batches = iter(loader)
    taken = [next(batches) for _ in range(3)]
    state = loader.state_dict()
    rest = [batch.numpy().tobytes() for batch in batches]
    cache.close()
    cache = ready(Numbered(50))
    loader = DataLoader(cache, batch_size=4, shuffle=True, num_workers=2, worker_method="thread")
    loader.load_state_dict(state)
    assert [batch.numpy().tobytes() for batch in loader] == rest and len(taken) + len(rest) == 8


def test_a_snapshot_that_is_gone_is_refused(ready):
    cache = ready(Numbered(None, size=20_000), max_bytes=1 << 20)
    state = cache.state_dict()
    for epoch in range(1, 5):
        until(cache, lambda _: cache._writer.store.full)
        cache.set_epoch(epoch)
    keys = keys_of(cache)
    with pytest.raises(CacheError, match="not in .* any more"):
        cache.load_state_dict(state)
    assert keys_of(cache) == keys


def test_weights_by_age(ready, monkeypatch):
    cache = ready(Numbered(4))
    ages = cache.ages()
    assert len(ages) == 4 and (ages >= 0).all() and (ages < 300).all()
    monkeypatch.setattr(time, "time", lambda: 0.0)  # a clock that jumps
    assert cache.ages().tolist() == [0, 0, 0, 0]
    assert len(list(WeightedRandomSampler((0.5**ages).tolist(), 10))) == 10


def test_a_dropped_cache_ends_its_threads(tmp_path):
    cache = GrowingCache(Numbered(None), tmp_path, max_bytes=1 << 20, fetchers=3)
    cache.set_epoch(0)
    threads, gone = cache._writer.fetchers.threads, weakref.ref(cache)
    del cache
    gc.collect()
    for thread in threads:
        thread.join(60)
    assert gone() is None
    GrowingCache(Numbered(1), tmp_path, max_bytes=1 << 20).close()  # the directory is free


def test_dropping_a_cache_waits_for_no_lock(tmp_path):
    """A collection may run anywhere, and found its caller inside a step
    for which a fetcher with ``guard`` waited.

    Reports: mosaicml/llm-foundry#436, huggingface/accelerate#3391.
    """
    cache = GrowingCache(Numbered(None), tmp_path, max_bytes=1 << 20, fetchers=3)
    cache.set_epoch(0)
    threads, guard = cache._writer.fetchers.threads, cache._writer.store.guard
    cache.itself = cache  # only a collection finds it
    held, dropped = threading.Event(), threading.Event()

    def hold():
        with guard:
            held.set()
            dropped.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    del cache
    with fork.registering:
        gc.collect()
    dropped.set()
    for thread in (holder, *threads):
        thread.join()


def test_close_does_not_wait_for_retries(opened, monkeypatch):
    monkeypatch.setattr(fetchers, "FIRST_PAUSE", 3000.0)  # longer than a test may take
    monkeypatch.setattr(fetchers, "LONGEST_PAUSE", 3000.0)
    cache = opened(Failing(None, lambda *_: OSError("away")), fetchers=8, retries=10**6)
    with pytest.warns(RuntimeWarning, match="away"), pytest.raises(CacheError):
        _ = [cache._writer.fetchers._report(OSError("away"), "x") for _ in range(20)]
        cache.set_epoch(0)
    cache.close()
    with pytest.raises(CacheError, match="the cache is closed"):
        cache.set_epoch(1)


def test_what_is_damaged_is_reported_and_fetched_again(ready):
    source = Numbered(5)
    cache = ready(source, min_samples=5, fetchers=1)
    one = cache._current.segments[0]
    with open(one.path, "r+b") as file:
        file.seek(60)
        file.write(b"\0\0\0\0")
    for _ in range(2):
        with pytest.raises(CorruptSampleError, match="'sample 0' .* is damaged"):
            cache[0]
    assert cache[1].tobytes() == content("sample 1", 1000)
    check_whole(cache, source, 1)
    assert source.reads.count("sample 0") == 2


@pytest.mark.parametrize("context", ["fork", "spawn"])
@pytest.mark.slow
def test_what_worker_processes_find_damaged_is_fetched_again(opened, context):
    source = Numbered(40, size=20_000)
    cache = opened(source, min_samples=40, fetchers=1)
    epochs = 2 if context == "fork" else 1
    for epoch in range(epochs):
        cache.set_epoch(epoch)
        for one in cache._current.segments[::3]:
            with open(one.path, "r+b") as file:
                file.seek(60)
                file.write(b"\0\0\0\0")
        # (In torch's own loader an error does not end the worker.)
        loader = torch.utils.data.DataLoader(
            cache, batch_size=1, num_workers=1, multiprocessing_context=context
        )
        batches, failed = iter(loader), 0
        for index in range(40):
            try:
                assert next(batches).numpy().tobytes() == content(cache.key(index), 20_000)
            except CorruptSampleError:
                failed += 1
        del batches
        assert failed == len(cache._current.segments[::3]) > 1
    check_whole(cache, source, epochs)
    check(pickle.loads(pickle.dumps(cache)))
    assert len(source.reads) < 3 * 40


@pytest.mark.parametrize(
    "arguments",
    [{"pin": 0}, {"fetchers": 0}, {"max_bytes": 1000}, {"max_bytes": None}, {"min_samples": -1}],
)
def test_arguments(tmp_path, arguments):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        GrowingCache(Numbered(1), tmp_path, **({"max_bytes": 1 << 20} | arguments))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_program_that_does_not_close_ends(run_program, tmp_path):
    status, out, err = run_program(f"""
        import sys
        sys.path.append({str(CHECKOUT)!r})
        from ftloader.cache import GrowingCache
        from tests.unit.loader.cache.sources import Numbered
        cache = GrowingCache(Numbered(None), {str(tmp_path / "c")!r}, max_bytes=1 << 20)
        cache.set_epoch(0)
        print(len(cache) > 0)
    """)
    assert (status, out, err) == (0, "True\n", "")


def test_no_ctrl_c_comes_between_a_lock_and_its_release():
    """Methods of a condition are Python, and Ctrl-C in one
    of them can leave its lock taken forever.
    """
    for path in (CHECKOUT / "loader/ftloader/cache").glob("*.py"):
        assert "changed:\n" not in path.read_text(), f"{path}: enter the condition's lock instead"


@pytest.mark.slow
def test_ctrl_c_leaves_nothing(run_program, tmp_path):
    status, out, err = run_program(f"""
        import os, signal, threading
        import sys
        sys.path.append({str(CHECKOUT)!r})
        from ftloader.cache import GrowingCache
        from ftloader.workers import exit
        from tests.unit.loader.cache.sources import Numbered
        exit.JOIN_LIMIT = 60  # a busy disk can hold up a thread that writes
        signal.signal(signal.SIGINT, signal.default_int_handler)
        in_the_block = threading.Event()
        class Interrupting(Numbered):
            def read(self, key):
                in_the_block.wait()
                if key == "sample 40":
                    os.kill(os.getpid(), signal.SIGINT)
                return super().read(key)
        try:
            with GrowingCache(Interrupting(None), {str(tmp_path / "c")!r}, 1 << 30, min_samples=10**6) as cache:
                in_the_block.set()
                cache.set_epoch(0)
        except KeyboardInterrupt:
            print([t.name for t in threading.enumerate() if t.name.startswith("cache")])
    """)
    assert (status, out, err) == (0, "[]\n", "")
