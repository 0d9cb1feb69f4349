"""Draws from the global generators are recorded with their line, in recording threads only, however
the function is held, and monitoring ends with the block."""

import ast
import copy
import functools
import inspect
import linecache
import random
import sys
import textwrap
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from random import randint
from random import random as draw_directly

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.random import rand
from scipy import stats

import ftloader
from ftloader.current import enter_sample, sample_scope
from ftloader.rng.sample import sample_rng
from ftsafety.audit.draws import recording_draws, reporting_calls

# Monitoring and the global generators belong to the whole process.
own = random.Random(3)
own_numpy = np.random.RandomState(3)
own_torch = torch.Generator()
uniform = functools.partial(random.uniform, 0, 1)


def draws_of(function):
    """The draws of a thread that calls *function*, by line and name."""
    found = set()

    def work():
        with recording_draws(found):
            function()

    with reporting_calls(), ThreadPoolExecutor(1) as threads:
        threads.submit(work).result()
    return sorted(found)


def lines_seen(function):
    return [(draw.line.filename, draw.line.number) for draw in draws_of(function)]


def draws():
    # One draw a line.
    random.random()
    random.randint(1, 6)
    random.shuffle([1, 2, 3])
    random.getrandbits(8)
    draw_directly()
    randint(1, 6)
    uniform()
    functools.partial(functools.partial(random.uniform, 0), 1)()
    [draw_directly() for _ in range(3)]
    list(map(draw_directly, ()))
    sorted([1, 2], key=lambda _: draw_directly())
    sorted([1, 2], key=functools.partial(random.uniform, 1))
    random.Random.uniform(random._inst, 0, 1)
    random._inst.gauss()
    random.choices(*[[1, 2]], k=2)
    np.random.rand(3)
    rand(3)
    np.random.random_sample()
    np.random.sample()
    np.random.ranf(2)
    np.random.shuffle([1, 2])
    np.random.mtrand._rand.normal(size=2)
    np.random.RandomState.rand(np.random.mtrand._rand, 2)
    torch.rand(3)
    torch.rand(3, generator=None)
    torch.randint(3, (2,), generator=torch.default_generator)
    torch.randperm(3)
    torch.empty(3).uniform_()
    torch.normal(0.0, 1.0, (2,))
    torch.bernoulli(torch.ones(2))
    torch.multinomial(torch.ones(2), 1)
    F.dropout(torch.ones(2), 0.5)
    torch.nn.Dropout()(torch.ones(2))
    torch.nn.Linear(2, 2)
    torch.utils.data.random_split(range(3), [1, 2])
    iter(torch.utils.data.DataLoader([1, 2], shuffle=True))


def seeds():
    # One change of a global generator's state a line.
    random.seed(3)
    random.setstate(random.getstate())
    np.random.seed(3)
    np.random.set_state(np.random.get_state())
    torch.manual_seed(3)
    torch.set_rng_state(torch.get_rng_state())
    torch.default_generator.manual_seed(3)


class Deceptive:
    """Answers to any attribute, and may not be asked for one."""

    def __getattr__(self, name):
        raise AssertionError(name)

    def __eq__(self, other):
        raise AssertionError

    __hash__ = None

    def __call__(self, *args):
        return args


def harmless():
    own.random(), own.randint(1, 6), own.shuffle([1, 2]), random.Random(3).random()
    (
        own_numpy.rand(3),
        own_numpy.seed(3),
        np.random.default_rng(3).random(),
        np.random.Generator(np.random.PCG64(3)),
    )
    torch.rand(3, generator=own_torch), torch.empty(3).uniform_(generator=own_torch)
    (
        torch.randperm(3, generator=own_torch),
        torch.utils.data.random_split(range(3), [1, 2], generator=own_torch),
    )
    (
        F.dropout(torch.ones(3), training=False),
        torch.nn.Dropout().eval()(torch.ones(3)),
        torch.ones(3) + 1,
    )
    random.getstate(), np.random.get_state(), torch.get_rng_state(), torch.initial_seed()
    (
        isinstance(random._inst, random.Random),
        copy.copy(own),
        str(random.random),
        id(np.random.mtrand._rand),
    )
    (
        Deceptive()(),
        Deceptive()(random.random),
        [Deceptive()].append(Deceptive()),
        random.SystemRandom().random(),
    )
    with sample_scope():
        enter_sample(types.SimpleNamespace(base_seed=1, number=0), 1)
        (
            sample_rng().python.random(),
            sample_rng().numpy.random(),
            torch.rand(2, generator=sample_rng().torch),
        )


def lines_of(function):
    """Numbers of the lines of a function's statements."""
    source, first = inspect.getsourcelines(function)
    (definition,) = ast.parse(textwrap.dedent("".join(source))).body
    return [first + statement.lineno - 1 for statement in definition.body]


@pytest.fixture(autouse=True)
def monitoring_is_off_afterwards():
    before = [sys.monitoring.get_tool(i) for i in range(6)]
    yield
    assert [sys.monitoring.get_tool(i) for i in range(6)] == before


@pytest.mark.parametrize("function", [draws, seeds])
def test_every_line_is_recorded(function):
    seen = dict.fromkeys(lines_seen(function))
    assert list(seen) == [(__file__, line) for line in lines_of(function)]


def test_several_functions_in_one_line_are_several_draws():
    found = draws_of(
        lambda: (random.random(), np.random.rand(), torch.rand(1), randint(1, 6), torch.rand(2))
    )
    assert [draw.name for draw in found] == [
        "numpy.random.rand",
        "random.randint",
        "random.random",
        "torch.rand",
    ]


def test_what_does_not_touch_a_global_generator_is_not_recorded():
    assert draws_of(harmless) == []


def test_results_are_unchanged():
    def numbers():
        random.seed(1), np.random.seed(1), torch.manual_seed(1)
        return (
            random.random(),
            random.randint(1, 99),
            np.random.rand(2).tolist(),
            torch.rand(2).tolist(),
        )

    results = [numbers()]
    assert draws_of(lambda: results.append(numbers()))
    assert results[0] == results[1]


@pytest.mark.slow
def test_a_draw_names_the_function_and_the_generator():
    def said(function):
        ((_, name, generator),) = draws_of(function)
        return f"{name}: {generator}"

    assert (
        said(lambda: randint(1, 6)) == "random.randint: the global generator of the module random"
    )
    assert said(lambda: rand(3)) == "numpy.random.rand: NumPy's global generator"
    assert said(lambda: torch.rand(3)).startswith("torch.rand: ")
    assert said(lambda: torch.empty(3).uniform_()).startswith("torch.Tensor.uniform_: ")
    assert said(lambda: torch.ops.aten.rand.default([3])).startswith(
        "torch.ops.aten.rand.default: "
    )
    assert (
        said(lambda: F.dropout(torch.ones(2)))
        == "torch.nn.functional.dropout: torch's default generator"
    )
    assert said(lambda: random.seed(3)).startswith("random.seed: ")
    assert (
        said(lambda: torch.manual_seed(3)) == "torch.random.manual_seed: torch's default generator"
    )
    # as torch.manual_seed is by importing torch._dynamo
    wrapped = torch._disable_dynamo(torch.random.manual_seed)
    assert said(lambda: wrapped(3)).startswith("torch.random.manual_seed: ")


def test_an_operation_of_another_library_draws():
    with torch.library._scoped_library("draws_test", "DEF") as library:
        library.define("noise(Tensor x) -> Tensor")
        library.impl("noise", lambda x: x + torch.rand(()), "CPU")
        ((_, name, _),) = draws_of(lambda: torch.ops.draws_test.noise(torch.ones(2)))
    assert name == "torch.ops.draws_test.noise"


def test_the_default_generator_of_another_device_is_a_global_one(monkeypatch):
    assert not lines_seen(lambda: torch.rand(3, generator=own_torch))
    # as after the device's first use
    monkeypatch.setattr(torch.cuda, "default_generators", (own_torch,))
    assert lines_seen(lambda: torch.rand(3, generator=own_torch))


# Whose line it is


def run_as(filename, source):
    """The functions that *source* defines, as if it were the file *filename*."""
    source = textwrap.dedent(source)
    linecache.cache[str(filename)] = (len(source), None, source.splitlines(True), str(filename))
    namespace = {"__name__": "made_up"}
    exec(compile(source, str(filename), "exec"), namespace)
    return types.SimpleNamespace(**namespace)


TRANSFORMS = """
import random
def flip():
    random.random()
def rotate():
    random.random()
"""


@pytest.fixture
def installed():
    return run_as("/somewhere/site-packages/transforms.py", TRANSFORMS)


def test_a_draw_in_an_installed_package_is_recorded_at_the_users_line(installed):
    def dataset():
        installed.flip()
        for transform in (installed.flip, installed.rotate):
            transform()

    first = lines_of(dataset)[0]
    assert list(dict.fromkeys(lines_seen(dataset))) == [(__file__, first), (__file__, first + 2)]


def test_with_nothing_but_installed_packages_the_package_is_recorded(installed):
    package = ftloader.__file__.removesuffix("__init__.py")
    fetch = run_as(f"{package}fetch.py", "def fetch(sample):\n    return sample()\n").fetch
    dataset = run_as(f"{package}datasets.py", "def load(transform):\n    return transform()\n").load
    ((filename, _),) = lines_seen(lambda: fetch(lambda: dataset(installed.flip)))
    assert filename == __file__  # the lambda is the user's
    seen = lines_seen(functools.partial(fetch, functools.partial(dataset, installed.rotate)))
    assert seen == [("/somewhere/site-packages/transforms.py", 6)]


def test_scipy_draws_are_found():
    # It calls methods of NumPy's hidden global instance.
    ((filename, _),) = lines_seen(lambda: stats.norm.rvs(size=2))
    assert filename == __file__


def test_other_threads_are_not_recorded():
    found, recorded, finished = set(), threading.Event(), threading.Event()

    def worker():
        with recording_draws(found):
            recorded.set()
            assert finished.wait(60)

    with reporting_calls(), ThreadPoolExecutor(2) as threads:
        busy = threads.submit(worker)
        assert recorded.wait(60)
        draws()
        threads.submit(draws).result()
        finished.set()
        busy.result()
    assert found == set()


def test_an_exception_in_the_block_ends_the_recording():
    found = set()
    with reporting_calls():
        with pytest.raises(ValueError, match="sample"), recording_draws(found):
            raise ValueError("sample")
        draws()
    assert found == set()


def test_another_tool_keeps_its_id_and_its_events():
    events = []
    mine = next(i for i in (3, 4) if sys.monitoring.get_tool(i) is None)
    sys.monitoring.use_tool_id(mine, "another tool")
    try:
        sys.monitoring.register_callback(
            mine, sys.monitoring.events.CALL, lambda *args: events.append(args[2])
        )
        sys.monitoring.set_events(mine, sys.monitoring.events.CALL)
        assert set(lines_seen(draws)) == {(__file__, line) for line in lines_of(draws)}
        assert sys.monitoring.get_events(mine) == sys.monitoring.events.CALL
        events.clear()
        randint(1, 6)
        assert randint in events
    finally:
        sys.monitoring.set_events(mine, 0)
        sys.monitoring.free_tool_id(mine)


def test_without_a_free_tool_id_the_error_says_what_to_do():
    taken = [i for i in range(6) if sys.monitoring.get_tool(i) is None]
    for i in taken:
        sys.monitoring.use_tool_id(i, f"tool {i}")
    try:
        with (
            pytest.raises(RuntimeError, match="all are in use: stop a profiler"),
            reporting_calls(),
        ):
            pass
    finally:
        for i in taken:
            sys.monitoring.free_tool_id(i)
    assert lines_seen(draws)  # nothing was left behind
