"""Proves that draws from the global generators are reported once per line, in watched threads only, however the
function is held, and that monitoring ends with the last watched thread."""

import ast
import copy
import functools
import inspect
import linecache
import pickle
import random
import subprocess
import sys
import textwrap
import threading
import types
import warnings
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
from ftloader.rng.sample import GlobalRandomWarning, sample_rng
from ftsafety.audit.strict_random import Watch

# Warnings, monitoring and the global generators belong to the whole process.
pytestmark = pytest.mark.thread_unsafe(reason="records warnings")

own = random.Random(3)
own_numpy = np.random.RandomState(3)
own_torch = torch.Generator()
uniform = functools.partial(random.uniform, 0, 1)


def in_thread(function, *args):
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(function, *args).result()


def reports_of(function, watch=None, times=1):
    """What a worker that calls *function* is told about."""
    watch = watch or Watch()

    def work():
        with watch.watching():
            for _ in range(times):
                function()

    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        in_thread(work)
    assert all(entry.category is GlobalRandomWarning for entry in log), [str(entry.message) for entry in log]
    return log


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
    own_numpy.rand(3), own_numpy.seed(3), np.random.default_rng(3).random(), np.random.Generator(np.random.PCG64(3))
    torch.rand(3, generator=own_torch), torch.empty(3).uniform_(generator=own_torch)
    torch.randperm(3, generator=own_torch), torch.utils.data.random_split(range(3), [1, 2], generator=own_torch)
    F.dropout(torch.ones(3), training=False), torch.nn.Dropout().eval()(torch.ones(3)), torch.ones(3) + 1
    random.getstate(), np.random.get_state(), torch.get_rng_state(), torch.initial_seed()
    isinstance(random._inst, random.Random), copy.copy(own), str(random.random), id(np.random.mtrand._rand)
    Deceptive()(), Deceptive()(random.random), [Deceptive()].append(Deceptive()), random.SystemRandom().random()
    with sample_scope():
        enter_sample(types.SimpleNamespace(base_seed=1, number=0), 1)
        sample_rng().python.random(), sample_rng().numpy.random(), torch.rand(2, generator=sample_rng().torch)


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
def test_every_line_is_reported_once(function):
    log = reports_of(function, times=3)
    assert [(entry.filename, entry.lineno) for entry in log] == [(__file__, line) for line in lines_of(function)]


def test_several_functions_in_one_line_are_several_call_sites():
    log = reports_of(lambda: (random.random(), np.random.rand(), torch.rand(1), randint(1, 6), torch.rand(2)), times=2)
    functions = [str(entry.message).partition("(")[0] for entry in log]
    assert functions == ["random.random", "numpy.random.rand", "torch.rand", "random.randint"]


def test_what_does_not_touch_a_global_generator_is_not_reported():
    assert [str(entry.message) for entry in reports_of(harmless)] == []


def test_results_are_unchanged():
    def numbers():
        random.seed(1), np.random.seed(1), torch.manual_seed(1)
        return random.random(), random.randint(1, 99), np.random.rand(2).tolist(), torch.rand(2).tolist()

    results = [numbers()]
    assert reports_of(lambda: results.append(numbers()))
    assert results[0] == results[1]


def test_a_report_names_the_function_and_what_to_use_instead():
    def advice(function):
        (entry,) = reports_of(function)
        return str(entry.message)

    assert "random.randint() draws from the global generator of the module random" in advice(lambda: randint(1, 6))
    assert advice(lambda: randint(1, 6)).endswith("ftloader.sample_rng().python")
    assert "numpy.random.rand() draws from NumPy's global generator" in advice(lambda: rand(3))
    assert advice(lambda: rand(3)).endswith("ftloader.sample_rng().numpy")
    assert "torch.nn.functional.dropout() draws from torch's default gen" in advice(lambda: F.dropout(torch.ones(2)))
    assert advice(lambda: torch.rand(3)).endswith("ftloader.sample_rng().torch")
    assert "random.seed() seeds the global generator" in advice(lambda: random.seed(3))
    assert "torch.random.manual_seed() seeds torch's default generator" in advice(lambda: torch.manual_seed(3))
    wrapped = torch._disable_dynamo(torch.random.manual_seed)  # as torch.manual_seed is by importing torch._dynamo
    assert "torch.random.manual_seed() seeds torch's default generator" in advice(lambda: wrapped(3))


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


def test_a_draw_in_an_installed_package_is_reported_at_the_users_line(installed):
    def dataset():
        installed.flip()
        for transform in (installed.flip, installed.rotate):
            transform()

    log = reports_of(dataset, times=2)
    first = lines_of(dataset)[0]
    assert [(entry.filename, entry.lineno) for entry in log] == [(__file__, first), (__file__, first + 2)] + [
        (__file__, first + 2)
    ]
    found = [str(entry.message).split("drawn at ")[1].split(". ")[0] for entry in log]
    # One line that uses two transforms has two things to change.
    assert found == [f"/somewhere/site-packages/transforms.py:{line}" for line in (4, 4, 6)]


def test_with_nothing_but_installed_packages_the_package_is_reported(installed):
    package = ftloader.__file__.removesuffix("__init__.py")
    fetch = run_as(f"{package}fetch.py", "def fetch(sample):\n    return sample()\n").fetch
    dataset = run_as(f"{package}datasets.py", "def load(transform):\n    return transform()\n").load
    (entry,) = reports_of(lambda: fetch(lambda: dataset(installed.flip)))
    assert entry.filename == __file__  # the lambda is the user's
    (entry,) = reports_of(functools.partial(fetch, functools.partial(dataset, installed.rotate)))
    assert (entry.filename, entry.lineno) == ("/somewhere/site-packages/transforms.py", 6)


def test_scipy_draws_are_found():
    # It calls methods of NumPy's hidden global instance.
    (entry,) = reports_of(lambda: stats.norm.rvs(size=2))
    assert entry.filename == __file__


# Which threads, which watch


def test_other_threads_are_not_watched():
    watched, finished = threading.Event(), threading.Event()
    watch = Watch()

    def worker():
        with watch.watching():
            watched.set()
            assert finished.wait(60)

    with warnings.catch_warnings(record=True) as log, ThreadPoolExecutor(2) as threads:
        warnings.simplefilter("always")
        busy = threads.submit(worker)
        assert watched.wait(60)
        draws()
        threads.submit(draws).result()
        finished.set()
        busy.result()
    assert [str(entry.message) for entry in log] == []


def test_several_workers_report_a_line_once():
    watch = Watch()
    all_in = threading.Barrier(4, timeout=60)

    def worker():
        with watch.watching():
            all_in.wait()
            draws()
            all_in.wait()

    with warnings.catch_warnings(record=True) as log, ThreadPoolExecutor(4) as threads:
        warnings.simplefilter("always")
        for done in [threads.submit(worker) for _ in range(4)]:
            done.result()
    assert sorted(entry.lineno for entry in log) == lines_of(draws)


def test_each_loader_reports_for_itself():
    one, other = Watch(), Watch()
    assert len(reports_of(draws, one)) == len(reports_of(draws, other)) == len(lines_of(draws))
    assert reports_of(draws, one) == []
    for copied in (pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one)):
        assert len(reports_of(seeds, copied)) == len(lines_of(seeds))


def test_watches_may_overlap_in_any_order():
    # Worker threads of two loaders, one of which ends while the other goes on.
    one_in, other_ended = threading.Event(), threading.Event()
    one, other = Watch(), Watch()

    def long():
        with one.watching():
            one_in.set()
            assert other_ended.wait(60)
            randint(1, 6)

    def short():
        assert one_in.wait(60)
        with other.watching():
            randint(1, 6)
        randint(1, 6)
        other_ended.set()

    with warnings.catch_warnings(record=True) as log, ThreadPoolExecutor(2) as threads:
        warnings.simplefilter("always")
        for done in [threads.submit(long), threads.submit(short)]:
            done.result()
    assert [entry.lineno for entry in log] == [lines_of(short)[1] + 1, lines_of(long)[0] + 3]


def test_a_watch_inside_a_watch():
    # A strict loader without worker threads of its own, inside a worker of another.
    outer, inner = Watch(), Watch()

    def nested():
        with inner.watching():
            randint(1, 6)
        torch.rand(2)

    (first, second) = reports_of(nested, outer)
    assert (first.lineno, second.lineno) == (lines_of(nested)[0] + 1, lines_of(nested)[1])
    assert [entry.lineno for entry in reports_of(nested, outer)] == []


def test_an_exception_in_the_block_ends_the_watch():
    watch = Watch()
    with pytest.raises(ValueError, match="sample"), watch.watching():
        raise ValueError("sample")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draws()


# With warning filters


def test_as_an_error_it_is_raised_where_the_draw_is_each_time():
    def dataset():
        before = random.getstate()
        with pytest.raises(GlobalRandomWarning, match=r"random\.random"):
            random.random()
        assert random.getstate() == before
        with pytest.raises(GlobalRandomWarning, match=r"torch\.rand"):
            torch.rand(3)
        return True

    def work():
        with Watch().watching():
            return dataset() and dataset()

    with warnings.catch_warnings():
        warnings.simplefilter("error", GlobalRandomWarning)
        assert in_thread(work)
    assert random.random() >= 0


def test_a_filter_by_module_applies():
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=GlobalRandomWarning)
        warnings.filterwarnings("ignore", category=GlobalRandomWarning, module=__name__.replace(".", r"\."))

        def work():
            with Watch().watching():
                draws()

        in_thread(work)


# The monitoring tool


def test_another_tool_keeps_its_id_and_its_events():
    events = []
    mine = next(i for i in (3, 4) if sys.monitoring.get_tool(i) is None)
    sys.monitoring.use_tool_id(mine, "another tool")
    try:
        sys.monitoring.register_callback(mine, sys.monitoring.events.CALL, lambda *args: events.append(args[2]))
        sys.monitoring.set_events(mine, sys.monitoring.events.CALL)
        assert len(reports_of(draws)) == len(lines_of(draws))
        assert sys.monitoring.get_events(mine) == sys.monitoring.events.CALL
        events.clear()
        randint(1, 6)
        assert randint in events
    finally:
        sys.monitoring.set_events(mine, 0)
        sys.monitoring.free_tool_id(mine)


def test_without_a_free_tool_id_the_error_names_who_has_them():
    taken = [i for i in range(6) if sys.monitoring.get_tool(i) is None]
    for i in taken:
        sys.monitoring.use_tool_id(i, f"tool {i}")
    try:
        with pytest.raises(RuntimeError, match="all are in use.*tool.*leave strict_rng out"), Watch().watching():
            pass
    finally:
        for i in taken:
            sys.monitoring.free_tool_id(i)
    assert len(reports_of(draws)) == len(lines_of(draws))  # nothing was left behind


def test_switching_on_and_off_while_other_threads_run():
    stop = threading.Event()

    def busy():
        rounds = 0
        while not stop.is_set():
            sorted([own.random() for _ in range(50)], key=lambda value: max(value, 0.5))
            rounds += 1
        return rounds

    def worker(number):
        found = 0
        for _ in range(40):
            found += len(own_watch(number))
        return found

    def own_watch(number):
        found = []
        watch = Watch()
        watch.report = lambda draw: found.append(draw.name)
        with watch.watching():
            randint(1, number + 1)
        return found

    with ThreadPoolExecutor(4) as threads:
        others = [threads.submit(busy) for _ in range(2)]
        workers = [threads.submit(worker, number) for number in range(2)]
        try:
            assert [work.result() >= 40 for work in workers] == [True, True]
        finally:
            stop.set()
        assert all(other.result() for other in others)


def test_a_child_forked_in_a_watched_thread_is_not_watched(environment):
    program = textwrap.dedent(
        """
        import os, random, sys, threading, warnings
        import torch
        from ftsafety.audit.strict_random import Watch
        warnings.simplefilter("error")
        def work():
            with Watch().watching():
                child = os.fork()
                if child == 0:
                    try:
                        random.random(); torch.rand(3)  # would raise in the parent
                        tools = [sys.monitoring.get_tool(i) for i in range(6)]
                        with Watch().watching():
                            try:
                                random.random()
                            except UserWarning:
                                os._exit(7 if set(tools) == {None} else 8)
                    finally:
                        os._exit(9)
                print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
                try:
                    random.random()
                except UserWarning:
                    print("still watched")
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        """
    )
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "7\nstill watched\n"), done.stderr


def test_a_finalizer_that_draws_while_a_draw_is_recorded():
    class Struck(set):
        def add(self, key):
            super().add(key)
            if len(self) == 1:
                random.random()  # what the finalizer does

    def work():
        with watch.watching():
            torch.rand(1)

    watch = Watch()
    watch._reported = Struck()
    # A daemon, since the failure is that it waits for ever, for a lock that it holds itself.
    thread = threading.Thread(target=work, daemon=True)
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        thread.start()
        thread.join(60)
    assert not thread.is_alive()
    assert sorted(str(entry.message).split("(")[0] for entry in log) == ["random.random", "torch.rand"]
