"""Programs that replace parts of torch's collation:
they get the batches that torch's class makes then.

The samples are large enough to be copied straight into the batch's memory,
without any of these functions.
"""

import pytest
from torch.utils.data._utils import collate

PROGRAM = """
import functools
import torch
import torch.utils.data
from torch.utils.data._utils import collate

def seen(function):
    # The name and module of the one that it replaces.
    return functools.wraps(function)(lambda *args, **more: ["seen", function(*args, **more)])

def replace(*_):
    exec(%(replacement)r, globals())

def batches(loader_class, **more):
    if %(when)r == "in worker_init_fn":
        more["worker_init_fn"] = replace
    rows = [(torch.full((200, 200), i), i) for i in range(8)]
    return repr(list(loader_class(rows, 4, num_workers=2, **more)))

if %(when)r == "before the import":
    replace()
import ftloader
if %(when)r == "after it":
    replace()
torchs = batches(torch.utils.data.DataLoader, multiprocessing_context="fork")
ours = batches(ftloader.DataLoader, worker_method="thread")
assert ours == torchs, ours + " is not " + torchs
answer = "seen" in torchs
"""
REGISTERED = "collate.default_collate_fn_map[torch.Tensor] = seen(collate.collate_tensor_fn)"
DEFAULT_COLLATE = "collate.default_collate = seen(collate.default_collate)"


@pytest.fixture
def torchs_collation():
    """Put torch's own collation back after the test."""
    functions = {name: vars(collate)[name] for name in ("collate", "default_collate")}
    table, before = collate.default_collate_fn_map, dict(collate.default_collate_fn_map)
    yield
    vars(collate).update(functions)
    table.clear()
    table.update(before)


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(
    ("when", "replacement", "seen"),
    [
        ("before the import", REGISTERED, True),
        ("before the import", DEFAULT_COLLATE, True),
        (
            "before the import",
            "torch.utils.data.default_collate = seen(collate.default_collate)",
            False,
        ),
        ("after it", REGISTERED, True),
        ("after it", DEFAULT_COLLATE, True),
        ("after it", "collate.collate = seen(collate.collate)", True),
        ("after it", "collate.default_collate_fn_map[tuple] = collate.collate_str_fn", False),
        ("in worker_init_fn", REGISTERED, True),
    ],
)
def test_a_part_is_replaced(request, torchs_collation, when, replacement, seen):
    program = PROGRAM % {"when": when, "replacement": replacement}
    if when == "before the import":
        run_with_torch = request.getfixturevalue("run_with_torch")
        assert run_with_torch(f"{program}print(answer)") == (0, f"{seen}\n", "")
    else:
        names = {}
        exec(program, names)
        assert names["answer"] is seen
