"""CPUs and memory that may be used: the affinity mask, and limits of the kernel's control groups.

tests/unit/runtime/test_cgroup.py has the table of quotas, for this function and the benchmark's.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ftloader.diagnosis.limits import usable_cpus, usable_memory
from ftrun import cgroup

ALLOWED = os.process_cpu_count()


def test_the_affinity_mask_counts():
    assert 1 <= usable_cpus() == cgroup.usable_cpus() <= len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("own", "limits"),
    [
        ("0::/a/b\n", {"a/memory.max": "5000", "a/b/memory.max": "max"}),
        ("5:memory:/x\n", {"memory/x/memory.limit_in_bytes": "5000"}),
    ],
    ids=["v2", "v1"],
)
def test_the_smallest_memory_limit_counts(own, limits, tmp_path):
    installed = usable_memory(tmp_path, tmp_path / "none")
    assert installed == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for name, limit in limits.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(limit)
    (tmp_path / "own").write_text(own)
    assert usable_memory(tmp_path, tmp_path / "own") == 5000


@pytest.fixture
def group():
    """Return the directory of a new control group whose CPU quota can be set."""
    for top in (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")):
        made = top / f"ftloader-test-{os.getpid()}"
        try:
            made.mkdir()
        except OSError:
            continue
        try:
            if list(made.glob("cpu.max")) or list(made.glob("cpu.cfs_quota_us")):
                yield made
                return
        finally:
            made.rmdir()
    pytest.skip(
        "no control group with a CPU quota can be made here: that takes root, and a writable "
        "/sys/fs/cgroup"
    )


@pytest.mark.parametrize("quota", [0.5, 1.5])
@pytest.mark.slow
def test_the_kernels_own_files(group, quota):
    """A program in a control group with a quota, as ``docker run --cpus`` makes one."""
    if (group / "cpu.max").exists():
        (group / "cpu.max").write_text(f"{round(quota * 100_000)} 100000")
    else:
        # of a period of 100 ms, the default
        (group / "cpu.cfs_quota_us").write_text(f"{round(quota * 100_000)}")
    program = f"""
import os
open({str(group / "cgroup.procs")!r}, "w").write(str(os.getpid()))
from ftloader import DataLoader
print(DataLoader(range(8), num_workers="auto").num_workers)
"""
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert int(found) == min(ALLOWED, 1 if quota < 1 else 2)
