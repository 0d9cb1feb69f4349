"""Programs that replace parts of torch's collation: they get the batches that torch's class makes then.

The samples are large enough to be copied straight into the batch's memory, without any of these functions.
"""

import json
import os
import subprocess
import sys

import pytest

from tests.checkout import importable

pytestmark = [pytest.mark.timeout(120), pytest.mark.thread_unsafe(reason="starts programs")]

# Runs each case in a child of its own, of a process that has imported torch alone.
PROGRAM = """
import functools, io, json, os, sys, traceback
import torch
import torch.utils.data
from torch.utils.data._utils import collate

def seen(function):
    # The name and module of the one that it replaces.
    return functools.wraps(function)(lambda *args, **more: ["seen", function(*args, **more)])

def run(when, replacement):
    def replace(*_):
        exec(replacement, globals())

    if when == "before the import":
        replace()
    import ftloader
    if when == "after it":
        replace()

    def batches(loader_class, **more):
        if when == "in worker_init_fn":
            more["worker_init_fn"] = replace
        rows = [(torch.full((200, 200), i), i) for i in range(8)]
        return repr(list(loader_class(rows, 4, num_workers=2, **more)))

    torchs = batches(torch.utils.data.DataLoader, multiprocessing_context="fork")
    ours = batches(ftloader.DataLoader, worker_method="thread")
    assert ours == torchs, ours + " is not " + torchs
    return "seen" in torchs

for case in json.loads(sys.argv[1]):
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            answer = run(*case)
        except BaseException:
            answer = traceback.format_exc()
        os.write(write, json.dumps(answer).encode()[:60_000])
        os._exit(0)
    os.close(write)
    print(open(read).read(), flush=True)
    os.wait()
"""
REGISTERED = "collate.default_collate_fn_map[torch.Tensor] = seen(collate.collate_tensor_fn)"
DEFAULT_COLLATE = "collate.default_collate = seen(collate.default_collate)"
CASES = [
    ("before the import", REGISTERED, True),
    ("before the import", DEFAULT_COLLATE, True),
    ("before the import", "torch.utils.data.default_collate = seen(collate.default_collate)", False),
    ("after it", REGISTERED, True),
    ("after it", DEFAULT_COLLATE, True),
    ("after it", "collate.collate = seen(collate.collate)", True),
    ("after it", "collate.default_collate_fn_map[tuple] = collate.collate_str_fn", False),
    ("in worker_init_fn", REGISTERED, True),
]


@pytest.fixture(scope="module")
def answers():
    """Return for each case whether the replacement is seen in the batches, or a traceback."""
    command = [sys.executable, "-c", PROGRAM, json.dumps([case[:2] for case in CASES])]
    environment = os.environ | {"PYTHONPATH": importable()}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: f"{CASES[number][0]}: {CASES[number][1]}")
def test_a_part_is_replaced(number, answers):
    assert answers[number] is CASES[number][2], answers[number]
