"""Remote storage: samples whose first byte comes 5 to 200 ms after the request, read with the
clients that people use.

A web server in its own process answers with this delay (ftbench.data.slow_server). Workers wait and
do not compute, so there are many more workers than cores. There is a scenario for each client
(ftbench.data.clients), since the client decides what threads share. With requests, each thread has
a connection. obstore waits outside Python. fsspec has one thread for all requests of a process.
This thread was busy 86% of the time on two cores without the GIL (1,100 samples/s, 64 worker
threads, 5 ms delay).
"""

from __future__ import annotations

import dataclasses

from ftbench.measure import epochs
from ftbench.plan.case import Amount, Case
from ftbench.plan.comparisons import FT, GIL, USUAL, Comparison, ComparisonPlan, Side
from ftbench.plan.scenario import Scenario, Task, Turns

NAME = "latency"
DESCRIPTION = (
    "remote storage, first byte after 5 to 200 ms, with three clients: do many threads "
    "hide the delays?"
)
SAMPLE_BYTES = 100_000
# Few enough samples for the server to keep all in memory.
LENGTH = 1024


class RemoteSamples:
    """Dataset whose sample i is a uint8 numpy array of 100,000 bytes,
    read from *address* with the client *client*.
    """

    def __init__(self, address: str, client: str):
        self._address, self._client = address, client

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int):
        import numpy

        from ftbench.data.clients import READ

        data = READ[self._client](self._address, f"samples/{index}")
        # A copy: torch warns about arrays on read-only memory.
        return numpy.frombuffer(data, numpy.uint8).copy()


def measure(task: Task) -> Turns:
    """Start a server for the case, and measure as ftbench.measure.epochs does."""
    from ftbench.data.clients import prepare
    from ftbench.data.slow_server import slow_server

    prepare(task.parameters["client"])
    with slow_server(task.parameters["delay"], SAMPLE_BYTES) as address:
        parameters = {**task.parameters, "address": address}
        return (yield from epochs.measure(dataclasses.replace(task, parameters=parameters)))


def _case(client: str, milliseconds: int) -> Case:
    title, delay = (
        f"first byte after {milliseconds} ms" if milliseconds else "no delay",
        milliseconds / 1000,
    )
    return Case(f"{milliseconds}-ms", title, {"delay": delay, "client": client}, delay)


def _delayed(side: Side) -> Comparison:
    """Return a comparison that answers the scenario's question: *side* with a delay of 50 ms
    against no delay.
    """
    a, b = (dataclasses.replace(side, case=f"{milliseconds}-ms") for milliseconds in (50, 0))
    return Comparison(a, b, "what is left of the delay", "headline", importance=0, first_only=True)


# Each comparison with every number of workers; in a quick run those of FT and GIL,
# with the most workers.
COMPARISONS = tuple(
    dataclasses.replace(c, every_count=True) for c in (_delayed(FT), _delayed(GIL), *USUAL)
)


def _scenario(client: str, note: str) -> Scenario:
    return Scenario(
        name=f"{NAME}-{client}",
        group=NAME,
        question=f"Do many threads hide the delays of remote storage, read with {client}?",
        description=f"samples of 100 kB from a web server that answers late, read with {client}",
        sample_bytes=SAMPLE_BYTES,
        # The address is that of the server that the measurement starts.
        dataset=lambda task: RemoteSamples(task.parameters["address"], client),
        measure=measure,
        metrics=("throughput", "cpu_per_1000", "time_to_first_batch"),
        note=note,
        plan=ComparisonPlan(
            COMPARISONS,
            tuple(_case(client, each) for each in (50, 0, 5, 200)),
            quick_cases=("50-ms", "0-ms"),
        ),
        inside=True,
        case_axis="delay of the first byte",
        case_unit="s",
        full=Amount(batch_size=4, batches_per_worker=6, turns=6, seconds=900),
        quick=Amount(batch_size=4, batches_per_worker=2, turns=4, seconds=180),
        workers=lambda cpus: sorted({2, 4, 8, 16, 32, 64, cpus}),
        quick_workers=16,  # starting 64 processes takes longer than a turn
    )


SCENARIOS = (
    _scenario("requests", "each worker thread has a session, and with it a connection"),
    _scenario("obstore", "obstore's client is in Rust, with threads of its own"),
    _scenario(
        "fsspec",
        "fsspec's requests all go through one thread of a process, which its loader threads share",
    ),
)
