"""Exceptions that Python prints and ignores, as evidence of the audit."""

import gc
import sys
import threading
import time

import pytest

from ftsafety.audit import audit
from ftsafety.audit.ignored import collecting

pytestmark = pytest.mark.thread_unsafe(
    reason="watches the whole process, and starts threads enough"
)


class Leases:
    """A dataset whose samples complain at their end,
    where Python ignores it, if others are in use.
    """

    def __init__(self, complains=lambda others: others > 0):
        self.lock, self.users, self.complains = threading.Lock(), 0, complains

    def __len__(self):
        return 16

    def enter(self):
        with self.lock:
            self.users += 1
        time.sleep(0.005)

    def leave(self):
        with self.lock:
            self.users -= 1
            others = self.users
        if self.complains(others):
            raise RuntimeError("in use by others")

    def __getitem__(self, index):
        lease = Lease(self)
        del lease
        return index


class Lease:
    def __init__(self, dataset):
        self.dataset = dataset
        dataset.enter()

    def __del__(self):
        self.dataset.leave()


class Helped(Leases):
    def __getitem__(self, index):
        helper = threading.Thread(target=lambda: (self.enter(), self.leave()))
        helper.start()
        helper.join()
        return index


class Cycled(Leases):
    """A dataset whose samples are destroyed when the garbage collector runs,
    and then complain always.
    """

    def __getitem__(self, index):
        Cycle()
        return index


class Cycle:
    def __init__(self):
        self.itself = self

    def __del__(self):
        raise RuntimeError("in use by others")


@pytest.fixture(autouse=True)
def pythons_own_hooks(monkeypatch):
    """Python's hooks, where pytest has its own."""
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(
    ("make", "line"), [(Leases, "del lease"), (Helped, 'raise RuntimeError("in use by others")')]
)
def test_what_is_ignored_only_under_threads_is_a_finding(make, line, capfd):
    report = audit(make(), seconds=1, threads=4)
    (finding,) = [finding for finding in report.findings if finding.kind == "ignored-exception"]
    assert not report.ok and finding.level == "problem"
    assert "RuntimeError: in use by others" in finding.title and __file__ in finding.where
    assert 'raise RuntimeError("in use by others")' in finding.where and line in finding.what
    assert "second look" in finding.seen and finding.remedy
    assert capfd.readouterr().err.count("RuntimeError: in use by others") == 1
    assert (
        sys.unraisablehook is sys.__unraisablehook__
        and threading.excepthook is threading.__excepthook__
    )


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("make", [Leases, Helped, Cycled])
def test_what_is_ignored_with_one_thread_too_is_no_finding(make, capfd):
    report = audit(make(lambda others: True), seconds=0.1, threads=4)
    assert report.ok, str(report)
    assert capfd.readouterr().err.count("RuntimeError: in use by others") == 1
    gc.collect()  # here, not in another test


def raise_in_a_destructor():
    cycle = Cycle()
    cycle.itself = None


def test_hooks_of_the_dataset_stay_and_may_call_the_hooks_before(monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", seen.append)
    monkeypatch.setattr(threading, "excepthook", seen.append)
    with collecting() as ignored:
        before = sys.unraisablehook, threading.excepthook
        of_dataset = [lambda args: before[0](args), lambda args: before[1](args)]
        sys.unraisablehook, threading.excepthook = of_dataset
        for _ in range(2):
            raise_in_a_destructor()
        assert len(ignored) == 2 and len(seen) == 1
    assert [sys.unraisablehook, threading.excepthook] == of_dataset
    for _ in range(2):
        raise_in_a_destructor()
    assert len(ignored) == 2 and len(seen) == 3
