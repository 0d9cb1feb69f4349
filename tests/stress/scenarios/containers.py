"""CPython's own containers, in the patterns that loaders use."""

import collections
import gc
import queue
import threading
import weakref

from tests.stress.engine import THREADS, Scenario

MANY = 200


class SharedCache(Scenario):
    """A cache filled by dict.setdefault: all threads get the same object for a key."""

    def __init__(self, rng):
        self.cache = {}
        self.seen = [{} for _ in range(THREADS)]

    def step(self, thread, rng):
        for key in rng.sample(range(MANY), MANY):
            self.seen[thread][key] = self.cache.setdefault(key, object())

    def check(self):
        for seen in self.seen:
            assert seen == self.cache


class EvictingCacheUnderLock(Scenario):
    """An OrderedDict as a least-recently-used cache, under a lock as it must be."""

    def __init__(self, rng):
        self.cache, self.lock = collections.OrderedDict(), threading.Lock()

    def step(self, thread, rng):
        for _ in range(MANY):
            key = rng.randrange(20)
            with self.lock:
                if key not in self.cache:
                    self.cache[key] = key * 2
                    if len(self.cache) > 8:
                        self.cache.popitem(last=False)
                else:
                    self.cache.move_to_end(key)
                    assert self.cache[key] == key * 2

    def check(self):
        assert len(self.cache) == 8


class ListAsResults(Scenario):
    """All threads append to one list; nothing is lost and nothing comes twice."""

    def __init__(self, rng):
        self.results = []

    def step(self, thread, rng):
        for number in range(MANY):
            self.results.append((thread, number))

    def check(self):
        assert sorted(self.results) == [(t, n) for t in range(THREADS) for n in range(MANY)]


class Slots(Scenario):
    """Each thread fills its own places of a list that was made before, as samples of a batch."""

    def __init__(self, rng):
        self.slots = [None] * MANY

    def step(self, thread, rng):
        for place in range(thread, MANY, THREADS):
            self.slots[place] = [place]

    def check(self):
        assert self.slots == [[place] for place in range(MANY)]


class DequeHandover(Scenario):
    """Half of the threads append, the other half popleft: each element comes out once."""

    def __init__(self, rng):
        self.deque = collections.deque()
        self.taken = [[] for _ in range(THREADS)]

    def step(self, thread, rng):
        if thread % 2:
            for number in range(MANY):
                self.deque.append((thread, number))
            return
        for _ in range(MANY):
            try:
                self.taken[thread].append(self.deque.popleft())
            except IndexError:  # empty
                continue

    def check(self):
        everything = [*self.deque, *(item for taken in self.taken for item in taken)]
        assert sorted(everything) == [(t, n) for t in range(1, THREADS, 2) for n in range(MANY)]


class SimpleQueueHandover(Scenario):
    """Tasks to workers through a SimpleQueue: each is got once, in order for each producer."""

    def __init__(self, rng):
        self.queue = queue.SimpleQueue()
        self.taken = [[] for _ in range(THREADS)]

    def step(self, thread, rng):
        if thread % 2:
            for number in range(MANY):
                self.queue.put((thread, number))
            return
        for _ in range(MANY):
            self.taken[thread].append(self.queue.get())

    def check(self):
        assert self.queue.empty()
        assert sum(map(len, self.taken)) == (THREADS // 2) * MANY
        for taken in self.taken:
            for producer in range(1, THREADS, 2):
                numbers = [number for thread, number in taken if thread == producer]
                assert numbers == sorted(numbers)


class CopiesOfWhatChanges(Scenario):
    """Registries are copied while others add and remove: dict.copy(), list(), set.copy()."""

    def __init__(self, rng):
        self.dict, self.list, self.set = {}, [], set()

    def step(self, thread, rng):
        for number in range(MANY):
            key = (thread, number)
            if thread % 2:
                self.dict[key] = number
                self.list.append(key)
                self.set.add(key)
                if number % 3 == 0:
                    del self.dict[key]
                    self.set.discard(key)
            else:
                assert all(value == name[1] for name, value in self.dict.copy().items())
                assert all(len(item) == 2 for item in list(self.list))
                assert all(len(item) == 2 for item in self.set.copy())


class FinalizersOfBuffers(Scenario):
    """Buffers are given back by weakref.finalize, each once,
    whichever thread drops the last reference.
    """

    class Buffer:
        pass

    def __init__(self, rng):
        self.free, self.lent = collections.deque(), []
        for number in range(MANY):
            buffer = self.Buffer()
            weakref.finalize(buffer, self.free.append, number)
            self.lent.append(buffer)
        self.shared = [list(self.lent) for _ in range(THREADS)]
        self.lent.clear()

    def step(self, thread, rng):
        mine = self.shared[thread]
        rng.shuffle(mine)
        while mine:
            mine.pop()

    def check(self):
        # Without the GIL the thread that made an object may still owe it a count, until it goes on
        # or a collection settles all counts.
        gc.collect()
        assert sorted(self.free) == list(range(MANY))


class LazyUnderLock(Scenario):
    """Double-checked lazy initialisation with a lock: made once."""

    def __init__(self, rng):
        self.lock, self.value, self.made = threading.Lock(), None, []

    def get(self):
        if self.value is None:
            with self.lock:
                if self.value is None:
                    self.made.append(1)
                    self.value = {"ready": True}
        return self.value

    def step(self, thread, rng):
        assert self.get() == {"ready": True}

    def check(self):
        assert len(self.made) == 1


class ThreadLocals(Scenario):
    """A threading.local whose subclass makes its state per thread: no thread sees another's."""

    class Own(threading.local):
        def __init__(self):
            self.items = []

    def __init__(self, rng):
        self.own = self.Own()

    def step(self, thread, rng):
        for number in range(MANY):
            self.own.items.append((thread, number))
        assert self.own.items == [(thread, number) for number in range(MANY)]


class ExceptionsFromWorkers(Scenario):
    """An exception raised in one thread is annotated, raised again and dropped in others."""

    def __init__(self, rng):
        self.errors = queue.SimpleQueue()

    def step(self, thread, rng):
        for number in range(30):
            try:
                raise ValueError(thread, number)
            except ValueError as error:
                error.add_note(f"in thread {thread}")
                self.errors.put(error)
            try:
                raise self.errors.get()
            except ValueError as error:
                assert error.__notes__ == [f"in thread {error.args[0]}"]
                error.__traceback__ = None
