"""``audit(dataset, copies=True)``: each thread has a copy of the dataset."""

import pytest

from tests.unit.safety import suspects
from tests.unit.safety.conftest import audit as patient_audit
from tests.unit.safety.conftest import kinds
from tests.unit.safety.suspects import Sized

calls = 0


def audit(dataset, **options):
    return patient_audit(dataset, **{"seconds": 0.4, "samples": 12, "threads": 4, **options})


class Cursor(Sized):
    """Rows that are read in two steps, as from a file."""

    position = 0

    def __getitem__(self, index):
        self.position = index
        return self.position


class Counter(Sized):
    """Rows that count the loads in a global variable."""

    def __getitem__(self, index):
        global calls
        calls += 1
        return index


def test_what_an_attribute_shares_is_cured_by_copies():
    shared = audit(Cursor())
    assert "unguarded-write" in kinds(shared)
    assert "copy_dataset=True" in shared.copies and "copies: DataLoader(" in str(shared)
    copied = audit(Cursor(), copies=True)
    assert copied.ok and not copied.findings, str(copied)
    assert not copied.copies
    assert "4 threads, each with a copy of the dataset" in copied.environment


def test_threads_load_their_first_sample_from_new_copies():
    report = audit(suspects.LazyFile, copies=True)  # opened by the first sample of each copy
    assert "unguarded-write" not in kinds(report) and report.ok, str(report)


def test_a_global_variable_is_not():
    report = audit(Counter(), copies=True)
    assert {"lost-update"} <= kinds(report) and not report.copies


def test_a_dataset_that_cannot_be_copied():
    with pytest.raises(TypeError, match=r"SharedFile\.file cannot be copied.*__getstate__"):
        audit(suspects.SharedFile(), copies=True)
    assert not audit(suspects.SharedFile()).copies  # is no remedy


def test_nothing_is_said_of_copies_if_nothing_is_shared():
    assert not audit(suspects.ReadAt()).copies
