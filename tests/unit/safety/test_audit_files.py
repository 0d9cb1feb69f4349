"""Audits of datasets that write files while they load,
into folders that are fresh or kept from an earlier run.
"""

import json
import os
import sys
import time

import numpy as np
import pytest

from ftsafety.audit.empty_copies import CopyError, check_namespaces
from ftsafety.audit.opened_files import recording_files
from ftsafety.audit.report import ABSENT
from tests.checkout import importable
from tests.programs import completed
from tests.unit.safety.conftest import audit, the

pytestmark = pytest.mark.slow

DATASET = """
import os

import numpy as np

FOLDER = os.path.join(os.path.dirname(__file__), "cache")


class Rows:
    def __len__(self):
        return 12

    def path(self, index):
        return os.path.join(FOLDER, f"{index}.npy")

    def __getitem__(self, index):
        if not os.path.exists(self.path(index)):
            self.write(index, np.full(2000, index))
        return np.fromfile(self.path(index), int)

    def write(self, index, values):
        with open(self.path(index), "wb") as file:
            for part in np.array_split(values, 20):
                file.write(part.tobytes())


class Renamed(Rows):
    def write(self, index, values):
        own = f"{self.path(index)}.{os.urandom(8).hex()}"
        with open(own, "wb") as file:
            file.write(values.tobytes())
        os.replace(own, self.path(index))


class Read(Rows):
    def write(self, index, values):
        raise FileNotFoundError(index)
"""


def has_namespaces():
    try:
        check_namespaces()
    except CopyError:
        return False
    return True


needs_namespaces = pytest.mark.skipif(not has_namespaces(), reason="no user namespaces here")


@pytest.fixture
def data(tmp_path):
    """The file of the datasets, next to the folder of a full cache."""
    (tmp_path / "data.py").write_text(DATASET)
    (tmp_path / "cache").mkdir()
    for index in range(12):
        np.full(2000, index).tofile(tmp_path / "cache" / f"{index}.npy")
    return tmp_path / "data.py"


def run(data, name, status=None, **variables):
    line = [
        sys.executable,
        "-m",
        "ftsafety.audit",
        f"{data}:{name}",
        "--json",
        "--seconds",
        "3",
        "--patience",
        "600",
    ]
    variables = {**os.environ, "PYTHONPATH": importable(), **variables}
    return json.loads(completed(line, status, env=variables).stdout)


def kinds(report):
    return {finding["kind"] for finding in report["findings"]}


def contents(data):
    return {
        path.name: (path.stat().st_mtime_ns, path.stat().st_ino, path.read_bytes())
        for path in (data.parent / "cache").iterdir()
    }


@needs_namespaces
def test_an_unsafe_write_into_a_full_cache(data):
    before = contents(data)
    report = run(data, "Rows", status=1)
    assert contents(data) == before  # nothing was removed, and nothing was written
    assert {"files-written"} < kinds(report) <= {"files-written", "results-differ", "exception"}
    graver = [finding for finding in report["findings"] if finding["level"] == "problem"]
    assert all(
        "without 6 files that loading then writes, the first" in finding["seen"]
        for finding in graver
    )
    assert all("but loading writes files, such as" in finding["remedy"] for finding in graver)
    (note,) = [finding for finding in report["findings"] if finding["kind"] == "files-written"]
    assert (
        'with open(self.path(index), "wb") as file:' in note["where"]
        and "os.replace()" in note["remedy"]
    )
    assert ABSENT not in report["cannot"]


@needs_namespaces
def test_a_safe_write_into_a_full_cache(data):
    before = contents(data)
    report = run(data, "Renamed", status=0)
    assert contents(data) == before
    assert kinds(report) == {"files-written"}
    assert "without 6 files that loading then writes, the first" in report["tried"][-1]


@needs_namespaces
def test_files_that_are_only_read(data):
    report = run(data, "Read", status=0)
    assert not kinds(report)
    assert (
        report["tried"][-1]
        == "6 indices without the files that they read, one at a time (6): none was written then"
    )
    assert not any(text.startswith(ABSENT) for text in report["cannot"])


def test_without_namespaces_the_report_says_what_to_do(data, tmp_path):
    (tmp_path / "bin").mkdir()
    report = run(data, "Rows", status=0, PATH=f"{tmp_path}/bin")
    (text,) = [text for text in report["cannot"] if text.startswith(ABSENT)]
    assert (
        "with an empty folder in place of" in text
        and "could not try it here" in text
        and "unshare" in text
    )


def test_files_that_are_written_in_the_audit(tmp_path):
    class Fresh:
        def __len__(self):
            return 8

        def __getitem__(self, index):
            path = tmp_path / f"{index}.npy"
            if not path.exists():
                np.save(path, np.full(10, index))
            return np.load(path)

    report = audit(Fresh(), seconds=0.2, threads=2)
    note = the(report, "files-written")
    assert note.title == f"loading writes files, such as {tmp_path}/0.npy" and report.ok
    assert note.where.endswith("np.save(path, np.full(10, index))") and note.seen.startswith(
        "8 written"
    )
    assert ABSENT in report.cannot


def test_which_files_count(tmp_path):
    kept, removed, renamed, copied = (
        tmp_path / name for name in ("kept", "removed", "renamed", "copied")
    )
    kept.write_text("from an earlier run")
    os.utime(kept, (1, 1))
    with recording_files() as opened:
        kept.read_text()
        removed.write_text("")
        removed.unlink()
        (tmp_path / "own").write_text("")
        os.replace(tmp_path / "own", renamed)
        os.system(f"echo > {copied}")  # as C++ code writes, of which no event tells
        os.utime(copied, ns=(0, time.time_ns()))  # a file system's clock may be late
        copied.read_text()
        with open(os.devnull, "w"), open("/proc/self/stat"):
            pass
    assert set(opened.written()) == {str(renamed), str(copied)}
    assert opened.rewritable() == [str(kept)]
