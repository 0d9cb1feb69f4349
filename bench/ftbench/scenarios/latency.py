"""Remote storage: samples whose first byte comes 5 to 200 ms after the request.

A web server in its own process answers with this delay (ftbench.data.slow_server). The dataset reads from it through
fsspec. Workers wait and do not compute, so there are many more workers than cores.

fsspec sends all requests of a process through the one thread of its event loop. If the delay is short, workers wait for
this thread: on two cores without the GIL it was busy 86% of the time (1,100 samples/s, 64 worker threads, 5 ms delay).
"""

from __future__ import annotations

import dataclasses

from ftbench.measure import epochs
from ftbench.plan.case import Amount, Case
from ftbench.plan.comparisons import USUAL, ComparisonPlan, with_every_count
from ftbench.plan.scenario import Scenario, Task, Turns

SAMPLE_BYTES = 100_000
# Few enough samples for the server to keep all in memory.
LENGTH = 1024


class RemoteSamples:
    """Dataset whose sample i is a uint8 numpy array of 100,000 bytes: ``fsspec.filesystem("http").cat_file(url)``."""

    def __init__(self, address: str):
        self._address = address

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int):
        import fsspec
        import numpy

        data = fsspec.filesystem("http").cat_file(f"{self._address}/samples/{index}")
        # A copy: torch warns about arrays on read-only memory.
        return numpy.frombuffer(data, numpy.uint8).copy()


def measure(task: Task) -> Turns:
    """Start the server, and measure as ftbench.measure.epochs does."""
    # Import it before workers are forked, so that they do not import it again.
    import fsspec.implementations.http  # noqa: F401

    from ftbench.data.slow_server import slow_server

    with slow_server(task.parameters["delay"], SAMPLE_BYTES) as address:
        parameters = {**task.parameters, "address": address}
        return (yield from epochs.measure(dataclasses.replace(task, parameters=parameters)))


def _case(milliseconds: int, quick_batches: int) -> Case:
    title, delay = f"first byte after {milliseconds} ms", milliseconds / 1000
    full, quick = Amount(8, 2 * quick_batches), Amount(8, quick_batches)
    return Case(f"{milliseconds}-ms", title, {"delay": delay}, delay, full=full, quick=quick)


# More batches for short delays, but few enough that 64 workers, which then compute, do not take minutes.
CASES = (_case(50, 4), _case(5, 8), _case(200, 2), _case(20, 6))

SCENARIO = Scenario(
    name="latency",
    question="remote storage, first byte after 5 to 200 ms: threads or processes, many more than cores?",
    description="samples of 100 kB from a web server that answers late, read through fsspec",
    sample="100,000 bytes from a web server",
    sample_bytes=SAMPLE_BYTES,
    # The address is that of the server that the measurement starts.
    dataset=lambda task: RemoteSamples(task.parameters["address"]),
    measure=measure,
    metrics=("throughput", "time_to_first_batch", "pss_mib"),
    note="fsspec's requests all go through one thread of a process, which its loader threads share",
    plan=ComparisonPlan(with_every_count(USUAL), CASES, quick_cases=("50-ms", "5-ms", "200-ms")),
    case_axis="delay of the first byte",
    case_unit="s",
    full=Amount(batch_size=8, batches_per_worker=8, seconds=900),
    quick=Amount(batch_size=8, batches_per_worker=4, seconds=215),
    workers=lambda cpus: sorted({2, 4, 8, 16, 32, 64, cpus}),
)
