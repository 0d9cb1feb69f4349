# /// script
# dependencies = ["prometheus_client>=0.20"]
# ///
"""Metrics of a loader for Prometheus. The share of the time that the loop waited for data, in PromQL:

rate(loader_waited_seconds_total[1m]) / rate(loader_loop_seconds_total[1m])
"""

import time
import urllib.request
from collections.abc import Iterator

import torch
from prometheus_client import REGISTRY, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from torch.utils.data import Dataset

from ftloader import DataLoader

COUNTERS = {
    "batches": ("batches", "Batches handed over to the training loop"),
    "samples": ("samples", "Samples in these batches"),
    "skipped": ("skipped_samples", "Samples left out by on_error"),
    "nbytes": ("bytes", "Bytes in the batches' tensors"),
    "seconds": ("loop_seconds", "Time in epochs"),
    "waited": ("waited_seconds", "Time in which the training loop waited for data"),
    "loading": ("loading_seconds", "Time in dataset[i], summed over the workers"),
    "cpu": ("cpu_seconds", "CPU time of the workers"),
}
GAUGES = {
    "ready": "Batches ready when the loop asks, on average",
    "memory_held": "Bytes of batch memory",
}


class LoaderCollector(Collector):
    """Metrics of one loader. Prometheus asks for them, in a thread of its own, while the loop runs."""

    def __init__(self, loader: DataLoader) -> None:
        self.loader = loader

    def collect(self) -> Iterator[Metric]:
        found = self.loader.statistics(total=True).as_dict()
        for key, (name, meaning) in COUNTERS.items():
            yield CounterMetricFamily(f"loader_{name}", meaning, value=found[key])
        for key, meaning in GAUGES.items():
            yield GaugeMetricFamily(f"loader_{key}", meaning, value=found[key])


class Samples(Dataset):
    """Dataset of 200 samples that take 2 ms each."""

    def __len__(self):
        return 200

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.full((64,), float(index))


def main() -> None:
    loader = DataLoader(Samples(), batch_size=8, num_workers=2)
    REGISTRY.register(LoaderCollector(loader))
    server, thread = start_http_server(
        0, addr="127.0.0.1"
    )  # 0: a free port; choose one for Prometheus
    for _epoch in range(2):
        for batch in loader:
            batch.mean().item()
    with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics") as page:
        lines = page.read().decode().splitlines()
    print(*(line for line in lines if line.startswith("loader_")), sep="\n")
    server.shutdown()
    thread.join()


if __name__ == "__main__":
    main()
