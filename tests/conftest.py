"""Options and fixtures of all tests."""

import collections
import faulthandler
import functools
import math
import multiprocessing.util
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
from pathlib import Path

import hypothesis
import pytest

from tests.forked_python import ForkedPython
from tests.worker_threads import until_collected, worker_threads

# Property tests: few cases and always the same ones, or (--hypothesis-profile thorough) many and
# new ones. No deadlines: the machine may be slow.
hypothesis.settings.register_profile(
    "default", deadline=None, derandomize=True, database=None, max_examples=40
)
hypothesis.settings.register_profile(
    "thorough",
    deadline=None,
    max_examples=2000,
    database=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(
    "quick", hypothesis.settings.get_profile("default"), max_examples=8
)
hypothesis.settings.load_profile("default")


def pytest_addoption(parser):
    group = parser.getgroup("ft-env")
    group.addoption("--long", action="store_true", help="run the tests that are marked long, too")
    group.addoption(
        "--quick", action="store_true", help="leave out tests that are marked slow or long"
    )
    group.addoption(
        "--minutes", type=float, help="tests/stress: minutes for all scenarios together (a soak)"
    )
    group.addoption("--seed", type=int, default=0, help="tests/stress: seed of the random choices")
    group.addoption(
        "--stress-report",
        metavar="FILE",
        help="tests/stress: write what each scenario did, as JSON",
    )


CASES = 2
"""Number of cases of a test that --quick runs, unless a mark says another."""

STDERR = pytest.StashKey()
"""The file descriptor of stderr, also while pytest captures what is written there."""
GRACE = 300.0
"""Seconds after which a run ends that does not end by itself, and says where each thread is."""


def pytest_configure(config):
    config.stash[STDERR] = os.dup(2)
    if config.getoption("--quick"):
        hypothesis.settings.load_profile("quick")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def watched(item):
    """End the run if a phase of a test goes on after the test's limit, whose exception is raised
    once, in the test.

    It cannot reach a call into C, nor what is done after a failure.
    """
    marker = item.get_closest_marker("timeout")
    given = item.config.getoption("timeout")
    limit = (
        marker.args[0]
        if marker
        else float(item.config.getini("timeout") if given is None else given)
    )
    if not limit:
        return (yield)
    faulthandler.dump_traceback_later(limit + GRACE, exit=True, file=item.config.stash[STDERR])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


pytest_runtest_setup = pytest_runtest_call = pytest_runtest_teardown = watched


@pytest.hookimpl(trylast=True)
def pytest_unconfigure():
    # The interpreter waits for threads and processes without a limit when it exits.
    faulthandler.dump_traceback_later(GRACE, exit=True)
    # for ./twins test, which aborts a run that does not end; pytest has disabled it
    faulthandler.enable()


def quick_items(items):
    """Return the tests that --quick runs: none that is marked slow or long, and of each some cases,
    always the same.

    The mark ``slow(cases=N)`` says how many cases of a test are quick enough all together.
    """
    cases = collections.defaultdict(list)
    for item in items:
        if not item.get_closest_marker("long"):
            cases[item.path, item.originalname].append(item)
    chosen = set()
    for group in cases.values():
        slow = group[0].get_closest_marker("slow")
        number = slow.kwargs.get("cases", 0) if slow else CASES
        chosen.update(random.Random(0).sample(group, min(number, len(group))))
    return [item for item in items if item in chosen]


def pytest_collection_modifyitems(config, items):
    if config.getoption("--quick"):
        chosen = quick_items(items)
        config.hook.pytest_deselected(items=list(set(items).difference(chosen)))
        items[:] = chosen
    for item in items:
        marker = item.get_closest_marker("long")
        if marker and not config.getoption("--long"):
            item.add_marker(
                pytest.mark.skip(reason=f"long ({marker.kwargs['reason']}): run with --long")
            )


# A background job of a non-interactive shell, and some CI runners, start with SIGINT ignored, and
# all their children inherit that. The programs under test are to be interrupted as at a terminal.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# The same for SIGHUP, which nohup ignores: with a handler, the tests still outlive their terminal,
# and the programs that they start have the default again.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

# .ci/coverage: what a forked child covers is not kept, and it would wait forever for a lock of the
# tracer that another thread held at the fork.
if sys.gettrace():
    for set_tracer in (sys.settrace, threading.settrace):
        os.register_at_fork(after_in_child=functools.partial(set_tracer, None))

# Variables that the runner of the tests sets for its own twin,
# and those that would choose other twins.
_OWN = (
    *("PYTHONPATH", "VIRTUAL_ENV", "PYTHON_GIL", "MIMALLOC_PURGE_DELAY"),
    *("FT_PYTHON", "GIL_PYTHON", "PYTHON_SERIES", "PYTHON_SUITE"),
)


@pytest.fixture(scope="session", autouse=True)
def temporary_files(request):
    """Let nothing that tests leave in the folder for temporary files, or processes that they kill,
    outlive the run.
    """
    if any("tmp_path_factory" in item.fixturenames for item in request.session.items):
        # Next to this folder, not in it: pytest keeps the folders of three runs, for those who look
        # into a failure.
        request.getfixturevalue("tmp_path_factory").getbasetemp()
    folder = tempfile.mkdtemp(prefix="ft-env-tests-")
    # Removed at the exit, after multiprocessing has removed its own folder in it (priority -100).
    multiprocessing.util.Finalize(None, shutil.rmtree, (folder, True), exitpriority=-200)
    os.chmod(folder, 0o1777)  # as /tmp: some tests run programs as another user
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield


@pytest.fixture(scope="session")
def shell_environment():
    """Return the variables of a user's shell, without those
    of the environment that runs the tests.
    """
    variables = {name: value for name, value in os.environ.items() if name not in _OWN}
    own = str(Path(sys.prefix) / "bin")
    variables["PATH"] = os.pathsep.join(
        part for part in variables["PATH"].split(os.pathsep) if part != own
    )
    return variables


@pytest.fixture(scope="session")
def _imported_python(pytestconfig):
    assert not pytestconfig.getoption("--quick"), "mark a test that starts a program slow"
    python = ForkedPython("torch, ftloader")
    yield python
    python.kill()


@pytest.fixture(scope="session")
def _python_with_torch(pytestconfig):
    assert not pytestconfig.getoption("--quick"), "mark a test that starts a program slow"
    python = ForkedPython("torch")
    yield python
    python.kill()


@pytest.fixture
def run_program(_imported_python, tmp_path):
    """Return ``run_program(source) -> (exit status, stdout, stderr)``,
    for programs whose start is not tested.
    """
    return lambda source: _imported_python.run(source, tmp_path)


@pytest.fixture
def run_with_torch(_python_with_torch, tmp_path):
    """As run_program, for programs that import ftloader themselves."""
    return lambda source: _python_with_torch.run(source, tmp_path)


@pytest.fixture
def no_worker_thread_left():
    """Check after the test that no worker thread of the loader is left."""
    yield
    assert until_collected(), worker_threads()


@pytest.fixture(scope="module")
def restless_tuner():
    """Let ``num_workers="auto"`` judge after every batch,
    as if all that it measures had changed.
    """
    from ftloader.iterators import tuner

    restless = dict.fromkeys(
        ("_WINDOW", "_LONG_WINDOW", "_SETTLES", "_PATIENCE", "_MOST_PATIENCE", "_BUSY"), 0.0
    )
    restless |= {"_WAITS": -1.0, "_CPUS_FULL": math.inf}
    real = {name: vars(tuner)[name] for name in restless}
    vars(tuner).update(restless)
    yield
    vars(tuner).update(real)


@pytest.fixture(scope="module")
def small_arrays_have_slots():
    """Write arrays of 4 kB into slots too, so that tests need no large ones.

    Without ``monkeypatch``, which would keep tests from running in several threads.
    """
    from ftloader.batch import layout

    real, layout.SMALLEST_SLOT = layout.SMALLEST_SLOT, 4096
    yield
    layout.SMALLEST_SLOT = real
