"""Data pipes under threads give the samples, shards and shuffles that torch's processes give."""

import multiprocessing
import sys
import threading

import pytest
import torch
import torch.utils.data
from torch.utils.data import IterDataPipe, MapDataPipe, Sampler, get_worker_info
from torch.utils.data.datapipes.iter import IterableWrapper
from torch.utils.data.datapipes.map import SequenceWrapper
from torch.utils.data.graph import traverse_dps
from torch.utils.data.graph_settings import get_all_graph_pipes

from ftloader import DataLoader
from ftloader.compat import data_pipes
from ftloader.iterators.processes import ProcessDataLoaderIter
from ftloader.iterators.threads import ThreadDataLoaderIter

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.thread_unsafe(reason="forks; torch's loaders walk pipes with hooks that all threads share"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),  # on few CPUs
    pytest.mark.filterwarnings("ignore:`shuffle=True` was set"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


def double(x):
    return 2 * x


def shuffled():
    return IterableWrapper(range(40)).shuffle().sharding_filter().map(double)


def sharded_then_shuffled():
    return IterableWrapper(range(40)).sharding_filter().shuffle(buffer_size=7)


def branched():
    even, odd = IterableWrapper(range(30)).shuffle().demux(2, is_odd)
    return even.concat(odd).sharding_filter()


def is_odd(x):
    return x % 2


class Holding(IterDataPipe):
    """Has something that cannot be copied."""

    def __init__(self):
        self.lock = threading.Lock()

    def __iter__(self):
        yield from range(4)


class ShardedMap(MapDataPipe):
    def __init__(self):
        self.shard = None

    def apply_sharding(self, instances, instance):
        self.shard = instance

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return index


class SaysWhere(IterDataPipe):
    def __init__(self, source):
        self.source = source

    def __iter__(self):
        for x in self.source:
            info = get_worker_info()
            yield x, info.id, info.num_workers


def seeded():
    return torch.Generator().manual_seed(11)


def epochs(kind, pipe, count=1, **arguments):
    dl = kind(pipe, batch_size=4, generator=seeded(), **arguments)
    result = [[batch.tolist() for batch in dl] for _ in range(count)]
    dl._iterator = None
    return result


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("make", [shuffled, sharded_then_shuffled, branched])
@pytest.mark.parametrize("shuffle", [None, True, False])
def test_threads_give_what_torchs_processes_give(make, workers, shuffle):
    expected = epochs(torch.utils.data.DataLoader, make(), 2, num_workers=workers, shuffle=shuffle)
    threads = epochs(DataLoader, make(), 2, num_workers=workers, shuffle=shuffle, worker_method="thread")
    assert threads == expected
    assert sorted(sum(threads[0], [])) == sorted(make())


@pytest.mark.parametrize("method", ["thread", "process"])
def test_epochs_of_persistent_workers(method):
    arguments = {"num_workers": 2, "persistent_workers": True}
    expected = epochs(torch.utils.data.DataLoader, shuffled(), 3, **arguments)
    ours = epochs(DataLoader, shuffled(), 3, worker_method=method, **arguments)
    assert ours == expected
    assert ours[0] != ours[1] != ours[2]  # shuffled anew


@pytest.mark.parametrize("make", [shuffled, branched])
def test_processes_and_no_workers_are_torchs(make):
    for workers in (0, 2):
        expected = epochs(torch.utils.data.DataLoader, make(), 2, num_workers=workers)
        ours = epochs(DataLoader, make(), 2, num_workers=workers, worker_method="process")
        assert ours == expected


def test_each_worker_iterates_a_copy_and_the_pipe_itself_is_left_alone():
    pipe = SaysWhere(IterableWrapper(range(12)).sharding_filter())
    dl = DataLoader(pipe, batch_size=None, num_workers=3, worker_method="thread")
    assert sorted(dl) == [[i, i % 3, 3] for i in range(12)]
    assert pipe.source.num_of_instances == 1


def test_init_function_sees_its_sharded_copy_and_may_walk_it():
    seen = {}

    def init(worker_id):
        info = get_worker_info()
        torch.utils.data.graph_settings.apply_sharding(info.dataset, 2, 1 - worker_id)
        seen[worker_id] = info.dataset

    dl = DataLoader(
        IterableWrapper(range(8)).sharding_filter(),
        batch_size=None,
        num_workers=2,
        worker_method="thread",
        worker_init_fn=init,
    )
    assert list(dl) == [1, 0, 3, 2, 5, 4, 7, 6]
    assert seen[0] is not seen[1]


def test_init_function_may_seed_the_first_epoch():
    def init(worker_id):
        get_worker_info().dataset._datapipe.set_seed(3)

    def make():
        return IterableWrapper(range(20)).shuffle()

    arguments = {"num_workers": 1, "worker_init_fn": init}
    expected = epochs(torch.utils.data.DataLoader, make(), **arguments)
    assert epochs(DataLoader, make(), worker_method="thread", **arguments) == expected


def test_functions_that_cannot_be_pickled_are_fine():
    pipe = IterableWrapper(range(6)).map(lambda x: x + 1).sharding_filter()
    dl = DataLoader(pipe, batch_size=None, num_workers=2, worker_method="thread")
    assert sorted(dl) == [1, 2, 3, 4, 5, 6]


def test_map_style_pipes_are_shared():
    pipe = SequenceWrapper(range(10), deepcopy=False).map(double)
    dl = DataLoader(pipe, batch_size=3, num_workers=2, worker_method="thread")
    assert [b.tolist() for b in dl] == [[0, 2, 4], [6, 8, 10], [12, 14, 16], [18]]
    assert data_pipes.own_copy(pipe)[0] is pipe


def test_a_pipe_that_cannot_be_copied():
    dl = DataLoader(Holding(), num_workers=1, worker_method="thread")
    with pytest.raises(TypeError, match="Holding cannot be copied.*worker_method='process'"):
        iter(dl)
    dl = DataLoader(Holding(), num_workers=1)
    assert sys._is_gil_enabled() or dl._reason_against_threads()[0]
    if multiprocessing.get_start_method() == "fork":  # else, as in torch, it must be picklable
        assert [batch.item() for batch in dl] == [0, 1, 2, 3]


def test_auto_takes_threads_where_the_gil_is_off():
    dl = DataLoader(shuffled(), batch_size=4, num_workers=1)
    iterator = iter(dl)
    expected = ProcessDataLoaderIter if sys._is_gil_enabled() else ThreadDataLoaderIter
    assert type(iterator) is expected
    assert len(list(iterator)) == 10


def test_a_map_pipe_that_is_sharded_needs_processes():
    pipe = ShardedMap()
    assert data_pipes.needs_processes(pipe)
    assert not data_pipes.needs_processes(SequenceWrapper([1, 2]))
    with pytest.raises(ValueError, match="worker_method='process'"):
        DataLoader(pipe, num_workers=1, worker_method="thread")
    dl = DataLoader(pipe, num_workers=1)
    assert dl._reason_against_threads()[0]
    with pytest.raises(ValueError, match="worker_method='process'"):
        dl.worker_method = "thread"


def test_sharding_twice_is_torchs_error():
    pipe = IterableWrapper(range(6)).sharding_filter().sharding_filter()
    dl = DataLoader(pipe, num_workers=1, worker_method="thread")
    with pytest.raises(RuntimeError, match="Sharding twice"):
        list(dl)


def test_shards_of_ranks_come_before_shards_of_workers():
    made = [data_pipes.own_copy(IterableWrapper(range(24)).sharding_filter())[0] for _ in range(4)]
    from ftloader.workers.info import WorkerInfo, acting_as

    shares = []
    for rank in (0, 1):
        for worker_id in (0, 1):
            pipe = made[2 * rank + worker_id]
            with acting_as(WorkerInfo(id=worker_id, num_workers=2, seed=0, dataset=pipe)):
                data_pipes.shard(pipe, 2, rank, worker_id)
            shares.append(list(pipe))
    assert shares[0] == list(range(0, 24, 4))  # rank 0, worker 0
    assert shares[1] == list(range(2, 24, 4))  # rank 0, worker 1
    assert shares[2] == list(range(1, 24, 4))
    assert sorted(sum(shares, [])) == list(range(24))


def test_loaders_over_pipes_in_several_threads_at_once():
    # torch's hooks for walking a graph are attributes of the classes.
    failures, rounds = [], 6
    barrier = threading.Barrier(4)
    expected = epochs(DataLoader, shuffled(), num_workers=0, shuffle=True)

    def work(workers):
        try:
            for _ in range(rounds):
                barrier.wait(60)
                got = epochs(DataLoader, shuffled(), num_workers=workers, shuffle=True, worker_method="thread")
                assert sorted(sum(got[0], [])) == sorted(sum(expected[0], []))
        except BaseException as error:
            failures.append(error)
            barrier.abort()

    threads = [threading.Thread(target=work, args=(i % 3,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("method", ["thread", "process"])
@pytest.mark.parametrize("workers", [0, 2])
def test_no_more_draws_from_the_generator_than_torchs(workers, method):
    ours, torchs = seeded(), seeded()
    list(DataLoader(shuffled(), num_workers=workers, generator=ours, worker_method=method))
    list(torch.utils.data.DataLoader(shuffled(), num_workers=workers, generator=torchs))
    assert torch.equal(ours.get_state(), torchs.get_state())


class Sorted(IterDataPipe):
    """Its ``iter()`` goes through a loader with threads."""

    def __init__(self, inner):
        self.inner = inner

    def __iter__(self):
        return iter(sorted(DataLoader(self.inner, batch_size=None, num_workers=1, worker_method="thread")))


@pytest.mark.timeout(30)
@pytest.mark.parametrize(("workers", "method"), [(0, "auto"), (1, "thread"), (1, "process")])
def test_the_iter_of_a_pipe_may_use_a_loader_with_threads(workers, method):
    pipe = Sorted(IterableWrapper([2, 1]))
    assert list(DataLoader(pipe, batch_size=None, num_workers=workers, worker_method=method)) == [1, 2]


def through_threads(_=None):
    return list(DataLoader(IterableWrapper([1, 0]), batch_size=None, num_workers=1, worker_method="thread"))


class OrderFromThreads(Sampler):
    """Goes through a loader with threads in its ``iter()``, or when it is asked for the first index."""

    def __init__(self, late):
        self.late = late

    def __len__(self):
        return 2

    def __iter__(self):
        return (i for _ in "1" for i in through_threads()) if self.late else iter(through_threads())


@pytest.mark.timeout(30)
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(("workers", "method"), [(0, "auto"), (1, "thread"), (1, "process")])
def test_a_sampler_may_use_a_loader_with_threads(workers, method, late):
    pipe = SequenceWrapper(["a", "b"])
    dl = DataLoader(
        pipe, batch_size=None, sampler=OrderFromThreads(late), num_workers=workers, worker_method=method,
        persistent_workers=workers > 0,
    )  # fmt: skip
    assert [list(dl), list(dl)] == 2 * [["b", "a"]]


@pytest.mark.timeout(30)
@pytest.mark.parametrize("pipe", [IterableWrapper([1, 2]), SequenceWrapper([1, 2])], ids=["iter", "map"])
def test_worker_init_fn_may_use_a_loader_with_threads(pipe):
    arguments = {"num_workers": 1, "worker_method": "thread", "worker_init_fn": through_threads}
    assert list(DataLoader(pipe, batch_size=None, **arguments)) == [1, 2]


def test_worker_init_fns_walk_their_pipes_at_once():
    barrier = threading.Barrier(4)
    pipes = []

    def walk(_):
        barrier.wait(60)
        pipes.extend(len(get_all_graph_pipes(traverse_dps(get_worker_info().dataset))) for _ in range(200))

    list(DataLoader(shuffled(), num_workers=4, worker_method="thread", worker_init_fn=walk))
    assert pipes == 800 * [
        len(get_all_graph_pipes(traverse_dps(shuffled()))) + 1
    ]  # with the one that torch wraps it in
