"""SIGKILL at random moments of fetching, writing, evicting and restarting:
real processes on a real directory.

Each life of the process opens the cache that the one before left, checks every sample, and goes on
until it is killed.
"""

import os
import random
import signal
import time
import traceback

import pytest

from ftloader.cache import GrowingCache, tfrecord
from tests.unit.loader.cache.sources import Logged, check, keys_of, until
from tests.unit.loader.cache.test_store import on_disk

pytestmark = pytest.mark.slow

FETCHERS = 4
BUDGET = 2 << 20
LONGEST = 0.1  # seconds


def live(chance, directory, log, count, size, budget, format):
    """Run one life of a process. It ends some time after its start,
    or after its cache was opened.
    """
    opened, opens = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(600)  # if the test gives up on it
        try:
            arguments = {"max_bytes": budget, "fetchers": FETCHERS, "format": format}
            with GrowingCache(Logged(count, size, log), directory, **arguments) as cache:
                os.write(opens, b"1")
                for epoch in range(10**9):
                    cache.set_epoch(epoch)
                    check(cache)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(opens)
    if chance.random() < 0.7:
        os.read(opened, 1)
    time.sleep(chance.uniform(0, LONGEST))  # the length of a life: it waits for nothing
    os.kill(child, signal.SIGKILL)
    os.close(opened)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def long(reason):
    return [pytest.mark.long(reason=reason), pytest.mark.timeout(1800)]


@pytest.mark.parametrize(
    ("kills", "seed", "format"),
    [
        (24, 0, "segment"),
        (24, 2, "tfrecord"),
        pytest.param(1000, 1, "segment", marks=long("1,000 kills")),
    ],
)
def test_kills(tmp_path, kills, seed, format):
    """Half of the lives have a source that fits the budget, the others an endless one."""
    chance = random.Random(seed)
    fitting, endless, log = (
        str(tmp_path / "fitting"),
        str(tmp_path / "endless"),
        str(tmp_path / "log"),
    )

    def fetched():
        return open(log).read().split("\n")[:-1] if os.path.exists(log) else []

    kill = 0
    while kill < kills or len(set(fetched())) <= 10 * kills // 4:
        # on a slow machine a life does not get far
        if kill % 2:
            live(chance, fitting, log, 10 * (kill + 2), 1500, 64 << 20, format)
        else:
            live(chance, endless, str(tmp_path / "other"), None, 20_000, BUDGET, format)
            assert not os.path.exists(endless) or on_disk(endless) <= BUDGET
        kill += 1
    # Each kill can have cost what was in flight and in unsealed segments of 1/128 of the budget,
    # and no more.
    open_samples = 2 * (64 << 20) // 128 // 1500
    assert len(fetched()) - len(set(fetched())) <= (FETCHERS + open_samples) * (kill // 2)
    for path, count, budget in ((fitting, 10 * (kill + 2), 64 << 20), (endless, None, BUDGET)):
        size = 20_000 if count is None else 1500
        source = Logged(count, size, str(tmp_path / "last"))
        with GrowingCache(
            source, path, max_bytes=budget, min_samples=count or 1, format=format
        ) as cache:
            cache.set_epoch(0)
            check(cache)
            if format == "tfrecord":
                records = [record for path in cache.files() for record in tfrecord.records(path)]
                assert records == [cache[index].tobytes() for index in range(len(cache))]
            assert count is None or sorted(keys_of(cache)) == sorted(source.keys())
    assert (tmp_path / "last").read_text()


@pytest.mark.filterwarnings("ignore:the cache:RuntimeWarning")
@pytest.mark.parametrize(
    ("kills", "seed"), [(12, 0), pytest.param(200, 1, marks=long("200 kills"))]
)
def test_kills_with_a_full_disk(disk, kills, seed):
    """The disk is smaller than the budget."""
    chance = random.Random(seed)
    directory = disk(1 << 20)
    path = str(directory / "cache")

    def free():
        ballast = os.statvfs(directory)
        return ballast.f_bfree * ballast.f_frsize

    while kills > 0 or free() >= 200_000:  # on a slow machine a life does not get far
        live(chance, path, "/dev/null", None, 20_000, BUDGET, "segment")
        kills -= 1
    with (
        pytest.warns(RuntimeWarning, match="No space left"),
        GrowingCache(
            Logged(None, 20_000, "/dev/null"), path, max_bytes=BUDGET, min_samples=10
        ) as cache,
    ):
        until(cache, lambda _: cache._writer.fetchers.trouble)
        cache.set_epoch(0)
        check(cache)
