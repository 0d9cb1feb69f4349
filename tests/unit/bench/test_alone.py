"""Two runs at once are noticed, until the first has ended."""

import os

from ftbench.machine.alone import claimed


def test_another_run_is_noticed():
    name = f"\0ft-bench-test-{os.getpid()}"
    for _ in range(2):
        with claimed(name) as alone, claimed(name) as second:
            assert alone and not second
