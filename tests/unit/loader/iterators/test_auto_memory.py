"""``num_workers="auto"`` in a process whose memory is limited:
as many threads as there is room for.
"""

import pytest

pytestmark = pytest.mark.slow

PROGRAM = """
import resource, torch, warnings
from ftloader import DataLoader
from ftloader.iterators import auto, tuner

warnings.simplefilter("ignore")  # of more threads than CPUs
auto.usable_cpus = lambda: 8  # with the GIL it begins with one thread
tuner._WINDOW = tuner._SETTLES = 0.0
tuner.WorkerTuner.look = lambda self, totals: self.most  # more at each chance
if {warm}:  # what a first thread needs
    assert len(list(DataLoader(range(4), num_workers=1, worker_method="thread"))) == 4

pages = int(open("/proc/self/statm").read().split()[0])
most = pages * resource.getpagesize() + {room} * 2**20
resource.setrlimit(resource.RLIMIT_AS, (most, most))
iterator = iter(DataLoader(range(640), 16, num_workers="auto", worker_method="thread"))
assert torch.cat(list(iterator)).tolist() == [*range(640)]
print(iterator._pool.started)
"""


@pytest.mark.parametrize("warm", [True, False])
def test_no_thread_is_started_that_there_is_no_memory_for(run_program, warm):
    """There is room for the stacks of three threads, and for nothing else."""
    assert run_program(PROGRAM.format(warm=warm, room=26)) == (0, "1\n", "")


def test_threads_are_started_where_there_is_memory(run_program):
    status, out, err = run_program(PROGRAM.format(warm=True, room=4000))
    assert (status, err) == (0, "")
    assert int(out) > 8
