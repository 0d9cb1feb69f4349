"""Memory of a million names: the same names however they are kept,
and what worker processes make of them.
"""

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ftbench.machine import usage
from ftbench.plan.scenario import Task
from ftbench.scenarios import SCENARIOS
from ftbench.scenarios.memory import LOOKS, NAMES, FileNames

SCENARIO = SCENARIOS["memory"]


@pytest.mark.slow
def test_both_ways_of_keeping_names_give_the_same_samples():
    as_list, as_array = FileNames(False), FileNames(True)
    assert len(as_list) == len(as_array) == NAMES
    found = [as_list[i] for i in range(0, NAMES, 997)]
    assert found == [as_array[i] for i in range(0, NAMES, 997)]
    assert min(found) == 56 and max(found) == 87


@pytest.mark.slow
def test_a_series_over_the_epoch():
    task = Task(SCENARIO, [], "loader-thread", 2, 5, 2, 60, 2, "list", {"kept": "list"})
    result = SCENARIO.measure(task)
    series = result["distributions"]
    assert {name: len(one["values"]) for name, one in series.items()} == dict.fromkeys(
        ("memory_mib", "uss_mib"), LOOKS + 1
    )
    for name in ("memory_mib", "uss_mib"):
        loaded = series[name]["over"]["values"]
        assert len(loaded) == len(series[name]["values"]) and (loaded[0], loaded[-1]) == (5, 300)
        assert result["metrics"][name] == max(series[name]["values"]) > 50
    both = zip(series["memory_mib"]["values"], series["uss_mib"]["values"], strict=True)
    assert all(uss <= pss + 1 for pss, uss in both)


@pytest.mark.slow
def test_a_descendant_that_may_not_be_looked_into(monkeypatch):
    """Such as one that runs a setuid program: the kernel only says how large it is."""
    look, held = usage._look, "held = b'1' * 2**26; print(flush=True); input()"

    def denied(process, shared):
        if process.pid == child.pid:
            raise errors.pop()
        return look(process, shared)

    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", held], **pipes) as child:
        child.stdout.readline()
        known = usage.tree_usage()
        monkeypatch.setattr(usage, "_look", denied)
        errors = [psutil.AccessDenied(child.pid), PermissionError(13, "Permission denied")]
        while errors:
            found = usage.tree_usage()
            assert (found.total, found.uss) == pytest.approx((known.total, known.uss), rel=0.2)
        child.communicate(b"\n")


# A file that nobody else on the machine has mapped: who shares torch's
# libraries is the other tests' business.
FILE_MIB = 160
# Has the file mapped, as libraries are, and tells for each line that it is sent its tree's memory,
# its own PSS as the kernel has it, and its children's USS, MiB. Every page is looked at first:
# kernels take back what nobody uses.
TELLS = """
import mmap, sys
import psutil
from ftbench.machine import usage
with open(sys.argv[1], "rb") as file:
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
for line in sys.stdin:
    sum(mapped[::mmap.PAGESIZE])
    me = psutil.Process()
    theirs = sum(child.memory_full_info().uss for child in me.children())
    print(usage.tree_usage().total, me.memory_full_info().pss / usage.MIB, theirs / usage.MIB, flush=True)
"""
STARTS = """
import subprocess
CHILD = (
    "import mmap, sys; file = open(sys.argv[1], 'rb'); "
    "mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ); "
    "print(sum(mapped[::mmap.PAGESIZE]), flush=True); sys.stdin.read()")
others = [subprocess.Popen([sys.executable, "-c", CHILD, sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
          for _ in range(3)]
for other in others:
    assert other.stdout.readline()
"""


@pytest.fixture
def library() -> Iterator[Path]:
    """A file to map. /var/tmp is on a disk, where /tmp may be in memory,
    whose pages count as shared memory.
    """
    with tempfile.NamedTemporaryFile(dir="/var/tmp") as file:
        file.write(bytes(FILE_MIB * usage.MIB))
        file.flush()
        yield Path(file.name)


@contextlib.contextmanager
def telling(library: Path, environment, code: str = TELLS):
    """A process that tells its memory, and a function that asks it."""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(library)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:

        def ask() -> list[float]:
            process.stdin.write("\n")
            return [float(word) for word in process.stdout.readline().split()]

        yield ask
        process.stdin.close()


@pytest.mark.slow
def test_the_libraries_count_once_whoever_else_has_mapped_them(library, environment):
    """Other trials are alive while one is measured;
    their share of torch's libraries is nobody's gain.
    """
    with telling(library, environment) as ask, contextlib.ExitStack() as others:
        alone, of_kernel, _ = ask()
        for _ in range(3):
            others.enter_context(telling(library, environment))()
        among_others, of_kernel_then, _ = ask()
        assert abs(among_others - alone) < 30
        # A quarter of the file is left, as far as the kernel is concerned.
        assert of_kernel - of_kernel_then > FILE_MIB / 2


@pytest.mark.slow
def test_the_libraries_of_a_tree_count_once(library, environment):
    with telling(library, environment) as ask:
        alone, _, _ = ask()
    with telling(library, environment, TELLS.replace("for line", STARTS + "for line")) as ask:
        tree, _, theirs = ask()
    # Each of the three has its own heap, and the file of the first.
    assert 3 * 2 < theirs and tree - alone < theirs + 30


BATCHES, BATCH_MIB = 10, 50
# Prints what the queued batches take: memory while all wait in the queue of torch's workers, less
# memory before. Both workers have sent a batch by then, which warms them up. They write to the pipe
# after a batch was moved to shared memory, when they send it.
QUEUES = f"""
import os
import torch
from torch.utils.data import DataLoader, default_collate
from ftbench.machine.usage import tree_usage
told, tell = os.pipe()
went, go = os.pipe()
class Sent:
    def __reduce__(self):
        os.write(tell, b".")
        return Sent, ()
class Waiting:
    content = torch.ones({BATCH_MIB} << 20, dtype=torch.uint8)
    def __len__(self):
        return 2 + {BATCHES}
    def __getitem__(self, index):
        if index in (2, 3):
            os.write(tell, b".")
            os.read(went, 1)
        return self.content
def wait(times):
    for _ in range(times):
        os.read(told, 1)
loader = DataLoader(
    Waiting(), num_workers=2, prefetch_factor=1 + {BATCHES // 2}, multiprocessing_context="fork",
    collate_fn=lambda samples: (default_collate(samples), Sent()))
batches = iter(loader)
wait(2 + 2)
before = tree_usage().total
os.write(go, b"..")
wait({BATCHES})
print(tree_usage().total - before)
"""


@pytest.mark.slow
def test_batches_that_wait_in_a_queue_and_that_no_process_has_mapped_count(environment):
    if shutil.disk_usage("/dev/shm").free < 2 * BATCHES * BATCH_MIB * usage.MIB:
        pytest.skip("/dev/shm is too small")
    done = subprocess.run(
        [sys.executable, "-c", QUEUES], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(BATCHES * BATCH_MIB, rel=0.05)


@pytest.mark.slow
def test_a_list_is_copied_while_it_is_looked_at_and_an_array_is_not(run_trial):
    """The scenario's effect, by real memory of a real forked worker."""

    def grown(case: str) -> tuple[float, list]:
        """(MiB by which the process tree grows over an epoch of one worker, checksums)."""
        result = run_trial("memory", "loader-process", case, batch_size=1000, batches=60)
        values = result["distributions"]["memory_mib"]["values"]
        return values[-1] - values[0], [result["first_batch"], result["rows"]]

    of_list, list_sums = grown("list")
    of_array, array_sums = grown("array")
    assert list_sums == array_sums
    # 60,000 names from all over are on most of the 130 MiB that hold the strings.
    assert of_list - of_array > 35
