"""Shared folders with the runs of a cluster's nodes.

The machines are made from one record: another processor is written into its environment, and its
figures are drawn around other means (tests.unit.bench.simulated).
"""

import json
import zlib
from collections.abc import Callable
from pathlib import Path

from ftbench import cli
from ftbench.document.convert import as_json
from ftbench.document.model import Results
from ftbench.merge.merging import merge
from ftbench.merge.model import Group, Merged
from tests.unit.bench.simulated import document as simulated

GIB = 2**30


class Cluster:
    """A shared folder, in which each node has a directory with its run."""

    def __init__(self, record: Results, shared: Path):
        self.record, self.shared = record, shared
        shared.mkdir()

    def node(
        self,
        name: str,
        model: str = "Processor A",
        speed: float = 1.0,
        threads: float = 1.0,
        rounds: int = 5,
        edit: Callable[[Results], object] | None = None,
        memory: int = 24 * GIB,
    ) -> Path:
        """Write a node's run. Its candidates have *speed* x 100 samples/s, and its threads
        *threads* times that.
        """
        keys = [candidate.key for candidate in self.record.scenarios[0].candidates]
        of = {key: 100 * speed * (threads if "thread" in key else 1) for key in keys}
        results = simulated(self.record, zlib.crc32(name.encode()), rounds, of)
        for twin in results.environment.twins.values():
            twin.cpu.model, twin.memory.total, twin.gpu.devices = model, memory, []
            twin.cpu.count = twin.cpu.affinity = twin.cpu.usable = 2
        if edit:
            edit(results)
        directory = self.shared / name
        directory.mkdir()
        (directory / "results.json").write_text(json.dumps(as_json(results)))
        return directory

    def merged(self) -> Merged:
        return merge([self.shared])


def only(merged: Merged) -> Group:
    (group,) = merged.groups
    return group


def run(capsys, *arguments: object):
    """Return (exit status, what was printed) of `merge`."""
    status = cli.main(["merge", *map(str, arguments)])
    return status, capsys.readouterr()
