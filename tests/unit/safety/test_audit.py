"""``ftsafety.audit`` on datasets whose faults are known, and on datasets that have none."""

import contextvars
import http.client
import random
import sys
import types

import pytest
import torch

from ftsafety.audit import AuditError, Report
from ftsafety.audit.comparison import difference, freeze
from ftsafety.audit.report import Finding
from ftsafety.audit.writes import stores_in
from tests.thread_safe_generator import torch_has_thread_safe_generator  # noqa: F401  # a fixture
from tests.unit.safety import suspects
from tests.unit.safety.conftest import audit as patient_audit
from tests.unit.safety.conftest import kinds, the


def audit(dataset, **options):
    return patient_audit(dataset, **{"seconds": 0.4, "samples": 12, "threads": 6, **options})


@pytest.mark.parametrize(
    "name", ["Clean", "ReadAt", "FilePerSample", "CountedUnderLock", "DecoderPerThread", "tensors"]
)
@pytest.mark.slow(cases=3)
def test_nothing_is_said_of_a_safe_dataset(name):
    report = audit(getattr(suspects, name)())
    assert report.ok, str(report)
    assert [finding for finding in report.findings if finding.level != "note"] == []
    assert any("that there is no race" in text for text in report.cannot)
    assert "nothing was found" in str(report)


def test_a_shared_file_position_and_what_comes_of_it():
    report = audit(suspects.SharedFile(), seconds=30)  # ends long before, when it has seen enough
    assert "self.file.seek(index * RECORD)" in the(report, "file-position").where
    differs = the(report, "results-differ")
    assert "suspects.py" in differs.where
    assert "values differ" in differs.what
    assert "second look" in differs.seen
    assert not report.ok


def test_a_lost_update_is_named_with_its_line():
    finding = the(audit(suspects.Counter()), "lost-update")
    assert finding.where.startswith(suspects.__file__)
    assert finding.where.endswith("self.served += 1")


served = 0


def updates():
    global served
    served+=1  # fmt: skip
    served //= 2
    served **= 2
    served = served + 1
    served = (
        served
        - 1
    )  # fmt: skip


def replaces():
    global served
    served = served or 1
    served = 1  # served += 1


def test_updates_of_a_global_variable():
    assert [store.kind for store in stores_in(updates.__code__).values()] == ["augmented"] * 5
    assert [store.kind for store in stores_in(replaces.__code__).values()] == ["global"] * 2


def test_lazy_initialisation():
    dataset = suspects.LazyFile()
    report = audit(dataset)
    finding = the(report, "unguarded-write")
    assert "self.file = open(self.path" in finding.where
    assert not report.ok and "looked at and then written" in finding.title
    assert "a file with a position, they may not), make it in __init__" in finding.remedy
    assert dataset.file is None  # as it was before


def test_a_cache_with_eviction():
    where = [
        finding.where
        for finding in audit(suspects.Evicting()).findings
        if finding.kind == "unguarded-write"
    ]
    assert any("self.cache[index] = index * 2" in text for text in where)
    assert any("self.cache.pop" in text for text in where)


def test_a_buffer_that_all_samples_are():
    report = audit(suspects.OneBuffer())
    assert {"overwritten-sample", "unguarded-write"} <= kinds(report)
    # not a copy alone
    assert "(threading.local), and return a copy" in the(report, "overwritten-sample").remedy


def test_global_randomness_is_distinguished_from_a_race():
    report = audit(suspects.GlobalDraw())
    draws = {
        finding.title.split("(")[0]: finding
        for finding in report.findings
        if finding.kind == "global-random"
    }
    assert set(draws) == {"torch.rand", "random.random"}
    assert "suspects.py:" in draws["torch.rand"].remedy
    assert (
        "give rand() the argument generator=ftloader.sample_rng().torch"
        in draws["torch.rand"].remedy
    )
    assert "write ftloader.sample_rng().python.random(...)" in draws["random.random"].remedy
    assert "not-repeatable" in kinds(report)
    assert "results-differ" not in kinds(report)


class Augmented(suspects.Sized):
    def __getitem__(self, index):
        return index + torch.rand(3, generator=torch.random.thread_safe_generator())


@pytest.mark.usefixtures("torch_has_thread_safe_generator")
def test_torchs_thread_safe_generator_is_no_global_one():
    report = audit(Augmented())
    assert kinds(report) == set(), str(report)


def test_what_differs_serially_too_is_no_race():
    report = audit(suspects.DifferentEachTime())
    assert kinds(report) == {"not-repeatable"}
    assert report.ok


class Augmenting(suspects.Sized):
    """Random samples, and a width that threads share between its write and its read."""

    def __getitem__(self, index):
        self.width = index % 7 + 1
        return torch.rand(self.width)


@pytest.mark.slow
def test_a_wrong_shape_of_a_random_sample():
    report = audit(Augmenting(), seconds=30)  # ends long before, when it has seen enough
    assert "instead of torch.float32" in the(report, "results-differ").what


class TwoOnOneLine(suspects.Sized):
    def __getitem__(self, index):
        self.here = self.there = index
        return self.here, self.there


def test_a_remedy_names_each_line_once():
    remedy = the(audit(TwoOnOneLine(), seconds=30), "results-differ").remedy
    assert remedy.count("test_audit.py:") == 1, remedy


class RandomWidth(suspects.Sized):
    """Random samples of a shape that is nearly always the same."""

    def __getitem__(self, index):
        return torch.rand(1 + (random.random() < 0.01))


@pytest.mark.parametrize("seed", range(3))
def test_a_random_shape_is_no_race(seed):
    random.seed(seed)
    report = audit(RandomWidth(), seconds=2, seed=seed)
    assert "results-differ" not in kinds(report) and not report.unconfirmed, str(report)


class Flipped(suspects.Sized):
    """Samples of one bit, drawn by a generator per sample."""

    def __getitem__(self, index):
        return random.Random().random() < 0.5


class PartlyFlipped(Flipped):
    """The first samples are random; the others have a number that threads share between its write
    and its read.
    """

    def __getitem__(self, index):
        if index < 6:
            return super().__getitem__(index)
        self.number = index
        return self.number


def test_values_that_are_equal_by_chance_are_no_race():
    report = audit(Flipped(), samples=32)
    assert kinds(report) == {"not-repeatable"} and report.ok, str(report)
    differs = the(audit(PartlyFlipped(), seconds=30), "results-differ")
    assert "index 0" not in differs.what + differs.title, differs


def test_something_per_thread_is_a_note():
    report = audit(suspects.FilePerThread())
    assert "self.own.file = open" in the(report, "late-thread-local").where
    assert report.ok, str(report)


def test_what_only_the_thread_has_that_made_the_dataset():
    finding = the(audit(suspects.LanguageOfTheMaker()), "other-in-makers-thread")
    assert "'en-" in finding.what and "'de-" in finding.what
    assert finding.level == "problem"


def test_context_variables_and_modes_are_those_of_the_program():
    def check():
        with torch.no_grad():
            assert not kinds(audit(suspects.MarginOfTheProgram()))

    contextvars.copy_context().run(check)


def test_connections_that_threads_may_not_share(monkeypatch):
    class Rows(suspects.Sized):
        def __init__(self):
            self.web, self.table = http.client.HTTPConnection("localhost"), Connection()

        def __getitem__(self, index):
            return index

    Connection = type("Connection", (), {"__module__": "some_database"})
    monkeypatch.setitem(sys.modules, "some_database", types.SimpleNamespace(threadsafety=1))
    limits = [finding for finding in audit(Rows()).findings if finding.kind == "known-limit"]
    assert {finding.title.partition(",")[0] for finding in limits} == {"http", "some_database"}
    assert all("one connection per thread" in finding.remedy for finding in limits)


@pytest.mark.slow
def test_iterable_datasets():
    assert audit(suspects.Stream()).ok
    assert audit(suspects.CountingStream()).ok  # each worker has a copy of its members
    report = audit(suspects.SharedStream())
    assert "self.position[0] += 1" in the(report, "lost-update").where


class ShareOf(torch.utils.data.IterableDataset):
    def __init__(self, samples):
        self.samples = samples

    def __iter__(self):
        return iter(self.samples)


def test_what_cannot_be_audited():
    with pytest.raises(AuditError, match="no such disk"):
        audit(suspects.Failing())
    with pytest.raises(TypeError, match="no dataset"):
        audit(17)
    with pytest.raises(TypeError, match=r"has no length: give indices \(--indices I,J,...\)"):
        audit(type("Endless", (), {"__getitem__": lambda self, index: index})())
    with pytest.raises(ValueError, match="empty"):
        audit([])
    with pytest.raises(AuditError, match="yields no sample"):
        audit(ShareOf([]))
    with pytest.raises(ValueError, match="threads"):
        audit([1], threads=1)


class OneBroken:
    def __len__(self):
        return 3

    def __getitem__(self, index):
        if index == 1:
            raise OSError("half a file")
        return index


def test_a_sample_that_always_raises_is_a_note_and_in_the_verdict():
    report = audit(OneBroken())
    finding = the(report, "raises")
    assert report.ok and finding.level == "note"
    assert finding.title == "index 1: loading raises with one thread too: OSError: half a file"
    assert finding.where.endswith('raise OSError("half a file")')
    assert report.verdict.endswith("in what was tried; 1 of 3 indices could not be judged")
    assert report.verdict in str(report) and report.to_dict()["verdict"] == report.verdict
    assert Report.from_dict(report.to_dict()).verdict == report.verdict


def test_a_report_survives_json():
    report = audit(suspects.Counter())
    assert str(Report.from_dict(report.to_dict())) == str(report)


def test_a_name_makes_no_line_of_a_report():
    shown = str(
        Report(
            "a.X\n\nverdict: nothing", "CPython", [Finding(*["kind", "note", "x\n1. y", *"abcd"])]
        )
    )
    assert "\nverdict: nothing\n" not in shown and "\n1. y" not in shown


def test_exact_comparison():
    base = {"x": [torch.zeros(2, 3), 1.0], "name": "a"}

    def changed(**changes):
        return difference(freeze({**base, **changes}), freeze(base))

    assert changed() is None
    assert changed(name="b") == "sample['name']: 'b' instead of 'a'"
    assert "(3, 2)" in changed(x=[torch.zeros(3, 2), 1.0])
    values = torch.zeros(2, 3)
    values[1, 2] = 5
    assert changed(x=[values, 1.0]) == (
        "sample['x'][0]: 1 of 6 values differ, the first at [1, 2]: 5.0 instead of 0.0"
    )
    assert changed(x=[torch.zeros(2, 3), 1]) == "sample['x'][1] is 1 instead of a float"
    nan = {"x": torch.tensor([float("nan")])}
    assert difference(freeze(nan), freeze(nan)) is None
