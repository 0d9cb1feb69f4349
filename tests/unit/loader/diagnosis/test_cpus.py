"""CPUs that may be used: the affinity mask, and quotas of control groups as the kernel lays them out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ftloader.diagnosis.cpus import usable_cpus

ALLOWED = os.process_cpu_count()


@pytest.mark.parametrize(
    ("own", "files", "cpus"),
    [
        ("0::/\n", {}, ALLOWED),
        ("0::/\n", {"cpu.max": "max 100000"}, ALLOWED),
        ("0::/\n", {"cpu.max": "50000 100000"}, 1),
        ("0::/\n", {"cpu.max": "100000 100000"}, 1),
        ("0::/\n", {"cpu.max": "101000 100000"}, min(2, ALLOWED)),
        ("0::/a/b\n", {"a/cpu.max": "100000 100000", "a/b/cpu.max": "max 100000"}, 1),
        ("0::/not/mounted\n", {"cpu.max": "100000 100000"}, 1),
        ("3:cpu,cpuacct:/a\n0::/\n", {"cpu/a/cpu.cfs_quota_us": "90000", "cpu/a/cpu.cfs_period_us": "100000"}, 1),
        ("3:cpu,cpuacct:/a\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, ALLOWED),
        ("", {"cpu.max": "nonsense"}, ALLOWED),
    ],
)
def test_the_smallest_limit_counts_and_a_part_of_a_cpu_as_one(own, files, cpus, tmp_path):
    (tmp_path / "cgroup").write_text(own)
    for name, text in files.items():
        (tmp_path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / name).write_text(text + "\n")
    assert usable_cpus(tmp_path / "groups", tmp_path / "cgroup") == cpus


def test_the_affinity_mask_counts():
    assert 1 <= usable_cpus() <= len(os.sched_getaffinity(0))


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
    pytest.skip("no control group with a CPU quota can be made here: that takes root, and a writable /sys/fs/cgroup")


@pytest.mark.parametrize("quota", [0.5, 1.5])
@pytest.mark.slow
def test_the_kernels_own_files(group, quota):
    """A program in a control group with a quota, as ``docker run --cpus`` makes one."""
    if (group / "cpu.max").exists():
        (group / "cpu.max").write_text(f"{round(quota * 100_000)} 100000")
    else:
        (group / "cpu.cfs_quota_us").write_text(f"{round(quota * 100_000)}")  # of a period of 100 ms, the default
    program = f"""
import os
open({str(group / "cgroup.procs")!r}, "w").write(str(os.getpid()))
from ftloader import DataLoader
print(DataLoader(range(8), num_workers="auto").num_workers)
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert int(found) == min(ALLOWED, 1 if quota < 1 else 2)
