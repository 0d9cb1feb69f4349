"""The datasets of docs/audit.md: what the page says of them is what the audit says."""

import importlib.util
import tempfile

import pytest

from tests.checkout import CHECKOUT
from tests.unit.safety.conftest import audit

EXAMPLES = CHECKOUT / "docs" / "audit"


@pytest.fixture
def report_on(monkeypatch, tmp_path):
    """Audits one of the examples; what is seen of its lines does not depend on the time."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def run(file, name):
        spec = importlib.util.spec_from_file_location(f"audited_{file}", EXAMPLES / f"{file}.py")
        module = importlib.util.module_from_spec(spec)
        # Not in sys.modules: the audit finds the user's code by its file.
        spec.loader.exec_module(module)
        return audit(getattr(module, name)(), seconds=0.4)

    return run


def the(report, kind):
    (finding,) = [finding for finding in report.findings if finding.kind == kind]
    return finding


@pytest.mark.parametrize(
    "file, name",
    [
        ("sqlite_rows", "per_thread"),
        ("zip_members", "locked"),
        ("zip_members", "per_thread"),
        ("mmap_records", "by_slice"),
    ],
)
@pytest.mark.slow(cases=1)
def test_safe_ones(report_on, file, name):
    report = report_on(file, name)
    assert report.ok and {finding.level for finding in report.findings} <= {"note"}, report


def test_a_connection_of_one_thread(report_on):
    report = report_on("sqlite_rows", "bound")
    finding = the(report, "bound-to-thread")
    assert "self.cursor.execute" in finding.where and "self.local.connection" in finding.remedy
    assert "SQLite objects created in a thread" in finding.title
    # Nothing is said to have been tried that was not.
    assert "nothing more was tried" in " ".join(report.cannot) and "rounds" not in " ".join(
        report.tried
    )


def test_the_position_of_a_map(report_on):
    finding = the(report_on("mmap_records", "by_position"), "file-position")
    assert (
        "memory map" in finding.title
        and "self.map.seek" in finding.where
        and "slices" in finding.remedy
    )


def test_an_array_that_all_threads_write(report_on):
    finding = the(report_on("mmap_records", "into_buffer"), "shared-array")
    assert (
        finding.level == "risk" and "scaled" in finding.title and "out=self.scaled" in finding.where
    )
