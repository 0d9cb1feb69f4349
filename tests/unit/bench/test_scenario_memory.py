"""Memory of a million names: the same names however they are kept, and what worker processes make of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import psutil
import pytest
import torch  # noqa: F401 - the libraries that are looked at

from bench import memory
from bench.scenario import Task
from bench.scenarios import SCENARIOS
from bench.scenarios.memory import NAMES, FileNames
from bench.trials import encode

SCENARIO = SCENARIOS["memory"]
pytestmark = [pytest.mark.thread_unsafe(reason="looks at the memory of processes"), pytest.mark.timeout(400)]


def test_both_ways_of_keeping_names_give_the_same_samples():
    as_list, as_array = FileNames(False), FileNames(True)
    assert len(as_list) == len(as_array) == NAMES
    found = [as_list[i] for i in range(0, NAMES, 997)]
    assert found == [as_array[i] for i in range(0, NAMES, 997)]
    assert min(found) == 56 and max(found) == 87


def test_a_series_over_the_epoch():
    task = Task(SCENARIO, [], "loader-thread", 2, 5, 2, 60, 2, "list", {"kept": "list"})
    result = memory.measure(task)
    series = result["distributions"]
    assert {name: len(one["values"]) for name, one in series.items()} == dict.fromkeys(
        ("pss_mib", "uss_mib"), memory.LOOKS + 1)
    for name in ("pss_mib", "uss_mib"):
        loaded = series[name]["over"]["values"]
        assert len(loaded) == len(series[name]["values"]) and (loaded[0], loaded[-1]) == (5, 300)
        assert result["metrics"][name] == max(series[name]["values"]) > 50
    both = zip(series["pss_mib"]["values"], series["uss_mib"]["values"], strict=True)
    assert all(uss <= pss + 1 for pss, uss in both)


def test_the_libraries_count_once_whoever_else_has_mapped_them(command):
    """Other trials are alive while one is measured; their share of torch's libraries is nobody's gain."""
    code = "import sys, torch; print(flush=True); sys.stdin.read()"
    mine = memory.tree_usage()
    others = [subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
              for _ in range(3)]
    try:
        for other in others:
            assert other.stdout.readline() == b"\n"
        # They are children of this process, and so of its tree: their libraries are those that it has already.
        theirs = [psutil.Process(other.pid).memory_full_info() for other in others]
        assert memory.tree_usage().pss - mine.pss < sum(one.uss for one in theirs) / memory.MIB + 30
        shared, mapped = memory._file_pages(os.getpid())
        assert shared < mapped / 2
    finally:
        for other in others:
            other.communicate()
    assert abs(memory.tree_usage().pss - mine.pss) < 30


def grown(command, environment, twin: str, case: str) -> tuple[float, list]:
    """(MiB by which the process tree grows over an epoch of one forked worker, checksums)."""
    request = {"scenario": "memory", "case": case, "parameters": SCENARIO.case(case).parameters, "paths": [],
               "config": twin, "variant": "loader-process", "workers": 1, "batch_size": 1000, "warmup_batches": 1,
               "batches": 60, "prefetch_factor": 2}
    done = subprocess.run(command(module="bench.trial"), input=encode(request), capture_output=True, timeout=300,
                          env={**environment, "PYTHON_GIL": "0"} if twin == "ft" else environment)
    assert done.returncode == 0, done.stderr.decode()
    result = json.loads(done.stdout)
    values = result["distributions"]["pss_mib"]["values"]
    return values[-1] - values[0], [result["first_batch"], result["rows"]]


def test_a_list_is_copied_while_it_is_looked_at_and_an_array_is_not(command, environment, twin):
    """What the scenario is about, by real memory of a real forked worker."""
    of_list, list_sums = grown(command, environment, twin, "list")
    of_array, array_sums = grown(command, environment, twin, "array")
    assert list_sums == array_sums
    # 60,000 names from all over are on most of the 130 MiB that hold the strings.
    assert of_list - of_array > 35
