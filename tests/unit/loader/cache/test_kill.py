"""SIGKILL at random moments of fetching, writing, evicting and restarting: real processes on a real directory.

Each life of the process opens the cache that the one before left, checks every sample, and goes on until it is killed.
"""

import json
import os
import random
import signal
import subprocess
import sys

import pytest

from ftloader.cache import GrowingCache, tfrecord
from tests.checkout import CHECKOUT, importable
from tests.unit.loader.cache.sources import Logged, check, keys_of, until
from tests.unit.loader.cache.test_store import on_disk

FETCHERS = 4
BUDGET = 2 << 20
LONGEST = 0.1  # seconds

# The parent of all lives imports torch once. Each line of its input is one life, which SIGKILL ends that number of
# seconds after its start, or after the cache was opened. The sleep is the length of a life; it waits for nothing.
PARENT = """
import json, os, signal, sys, time
from ftloader.cache import GrowingCache
from tests.unit.loader.cache.sources import Logged, check

def live(opens, directory, log, count, size, budget, format):
    arguments = dict(max_bytes=budget, fetchers={fetchers}, format=format)
    with GrowingCache(Logged(count, size, log), directory, **arguments) as cache:
        os.write(opens, b"1")
        for epoch in range(10**9):
            cache.set_epoch(epoch)
            check(cache)

for line in sys.stdin:
    seconds, after_opening, life = json.loads(line)
    opened, opens = os.pipe()
    child = os.fork()
    if not child:
        try:
            live(opens, *life)
        except BaseException as error:
            print(type(error).__name__, error, file=sys.stderr, flush=True)
        os._exit(1)
    os.close(opens)
    if after_opening:
        os.read(opened, 1)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.close(opened)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def lives():
    """``lives(chance, directory, log, count, size, budget, format)``: one, of a random length."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(fetchers=FETCHERS)],
        env=os.environ | {"PYTHONPATH": f"{importable()}{os.pathsep}{CHECKOUT}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def live(chance, *life):
        parent.stdin.write(json.dumps((chance.uniform(0, LONGEST), chance.random() < 0.7, life)) + "\n")
        parent.stdin.flush()
        assert int(parent.stdout.readline()) == -signal.SIGKILL

    yield live
    parent.stdin.close()
    assert parent.wait(60) == 0
    parent.stdout.close()


def campaign(lives, directory, kills, seed, format="segment"):
    """Run *kills* lives or more, of a source that fits the budget and of an endless one."""
    chance = random.Random(seed)
    directory.mkdir(exist_ok=True)
    fitting, endless, log = str(directory / "fitting"), str(directory / "endless"), str(directory / "log")

    def fetched():
        return open(log).read().split("\n")[:-1] if os.path.exists(log) else []

    kill = 0
    while kill < kills or len(set(fetched())) <= 10 * kills // 4:  # on a slow machine a life does not get far
        if kill % 2:
            lives(chance, fitting, log, 10 * (kill + 2), 1500, 64 << 20, format)
        else:
            lives(chance, endless, str(directory / "other"), None, 20_000, BUDGET, format)
            assert not os.path.exists(endless) or on_disk(endless) <= BUDGET
        kill += 1
    # Each kill can have cost what was in flight, and no more.
    assert len(fetched()) - len(set(fetched())) <= FETCHERS * (kill // 2)
    for path, count, budget in ((fitting, 10 * (kill + 2), 64 << 20), (endless, None, BUDGET)):
        size = 20_000 if count is None else 1500
        source = Logged(count, size, str(directory / "last"))
        with GrowingCache(source, path, max_bytes=budget, min_samples=count or 1, format=format) as cache:
            cache.set_epoch(0)
            check(cache)
            if format == "tfrecord":
                records = [record for path in cache.files() for record in tfrecord.records(path)]
                assert records == [cache[index].tobytes() for index in range(len(cache))]
            assert count is None or sorted(keys_of(cache)) == sorted(source.keys())
    assert (directory / "last").read_text()


@pytest.mark.parametrize(("seed", "format"), [(0, "segment"), (2, "tfrecord")])
def test_kills(lives, tmp_path, seed, format):
    campaign(lives, tmp_path, 24, seed, format)


@pytest.mark.long(reason="1,000 kills")
@pytest.mark.timeout(1800)
def test_a_thousand_kills(lives, tmp_path):
    campaign(lives, tmp_path, 1000, 1)


def full_disk(lives, disk, kills, seed):
    """Run lives on a disk that is smaller than the budget."""
    chance = random.Random(seed)
    directory = disk(1 << 20)
    path = str(directory / "cache")

    def free():
        ballast = os.statvfs(directory)
        return ballast.f_bfree * ballast.f_frsize

    while kills > 0 or free() >= 200_000:  # on a slow machine a life does not get far
        lives(chance, path, "/dev/null", None, 20_000, BUDGET, "segment")
        kills -= 1
    with (
        pytest.warns(RuntimeWarning, match="No space left"),
        GrowingCache(Logged(None, 20_000, "/dev/null"), path, max_bytes=BUDGET, min_samples=10) as cache,
    ):
        until(cache, lambda _: cache._fetchers.trouble)
        cache.set_epoch(0)
        check(cache)


@pytest.mark.filterwarnings("ignore:the cache:RuntimeWarning")
def test_kills_with_a_full_disk(lives, disk):
    full_disk(lives, disk, 12, 0)


@pytest.mark.long(reason="200 kills")
@pytest.mark.timeout(1800)
@pytest.mark.filterwarnings("ignore:the cache:RuntimeWarning")
def test_two_hundred_kills_with_a_full_disk(lives, disk):
    full_disk(lives, disk, 200, 1)
