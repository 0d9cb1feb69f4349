"""Limits of control groups, from trees of files as the kernel lays them out."""

import os
from pathlib import Path

import pytest

from ftloader.diagnosis.limits import usable_cpus as loader_cpus
from ftrun import cgroup


def tree(root: Path, mounts: str, groups: str, files: dict[str, str]) -> Path:
    proc = root / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "self/mountinfo").write_text(mounts.format(root=root))
    (proc / "self/cgroup").write_text(groups)
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content + "\n")
    return proc


V2 = "30 23 0:26 / {root}/cg rw - cgroup2 cgroup2 rw\n"
V1 = (
    "31 23 0:27 / {root}/cg/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "32 23 0:28 / {root}/cg/memory rw - cgroup cgroup rw,memory\n"
)


def test_v2_the_tightest_ancestor_counts(tmp_path):
    proc = tree(
        tmp_path,
        V2,
        "0::/a/b\n",
        {
            "cg/a/cpu.max": "150000 100000",
            "cg/a/b/cpu.max": "max 100000",
            "cg/a/memory.max": "max",
            "cg/a/memory.current": "5",
            "cg/a/b/memory.max": "1000",
            "cg/a/b/memory.current": "700",
            "cg/a/b/memory.stat": "anon 400\ninactive_file 300",
        },
    )
    assert cgroup.cpu_quota(proc) == 1.5
    assert cgroup.memory_left(proc) == (1000, 600)


def test_v1(tmp_path):
    proc = tree(
        tmp_path,
        V1,
        "4:cpu,cpuacct:/x\n5:memory:/x\n",
        {
            "cg/cpu,cpuacct/x/cpu.cfs_quota_us": "50000",
            "cg/cpu,cpuacct/x/cpu.cfs_period_us": "100000",
            "cg/memory/x/memory.limit_in_bytes": "2000",
            "cg/memory/x/memory.usage_in_bytes": "1500",
            "cg/memory/x/memory.stat": "total_inactive_file 100",
            "cg/memory/memory.limit_in_bytes": "9223372036854771712",
            "cg/memory/memory.usage_in_bytes": "9",
        },
    )
    assert cgroup.cpu_quota(proc) == 0.5
    assert cgroup.memory_left(proc) == (2000, 600)


@pytest.mark.parametrize(
    ("mounts", "groups", "file", "stat"),
    [
        (V2, "0::/\n", "cg/cpu.stat", "usage_usec 5\nthrottled_usec 2500000"),
        (
            V1,
            "3:cpu,cpuacct:/\n",
            "cg/cpu,cpuacct/cpu.stat",
            "nr_throttled 4\nthrottled_time 2500000000",
        ),
    ],
)
def test_throttling(tmp_path, mounts, groups, file, stat):
    proc = tree(tmp_path, mounts, groups, {file: stat})
    assert cgroup.throttled_seconds(proc) == 2.5
    (tmp_path / file).unlink()
    assert cgroup.throttled_seconds(proc) is None


def test_container_without_a_namespace_sees_its_group_as_the_mount(tmp_path):
    mounts = "31 23 0:27 /docker/abc {root}/cg rw - cgroup2 cgroup2 rw\n"
    proc = tree(tmp_path, mounts, "0::/docker/abc\n", {"cg/cpu.max": "200000 100000"})
    assert cgroup.cpu_quota(proc) == 2


def test_no_limits(tmp_path):
    assert cgroup.cpu_quota(tree(tmp_path, V2, "0::/\n", {"cg/cpu.stat": ""})) is None
    assert cgroup.memory_left(tmp_path / "nowhere") == (None, None)


def limited(period: str, **quotas: str) -> dict[str, str]:
    """Return the files of version 1 that set the quotas (µs
    of a *period*) of the groups ("" for the mount).
    """
    files = {}
    for group, quota in quotas.items():
        folder = f"cg/cpu,cpuacct/{group.strip('_')}"
        files |= {f"{folder}/cpu.cfs_quota_us": quota, f"{folder}/cpu.cfs_period_us": period}
    return files


IN_DOCKER = "31 23 0:27 /docker/abc {root}/cg rw - cgroup2 cgroup2 rw\n"


@pytest.mark.parametrize(
    ("mounts", "groups", "files", "cpus"),
    [
        (V2, "0::/\n", {}, 4),
        (V2, "0::/\n", {"cg/cpu.max": "max 100000"}, 4),
        (V2, "0::/\n", {"cg/cpu.max": "50000 100000"}, 1),
        (V2, "0::/\n", {"cg/cpu.max": "100000 100000"}, 1),
        (V2, "0::/\n", {"cg/cpu.max": "101000 100000"}, 2),
        (V2, "0::/\n", {"cg/cpu.max": "150000 100000"}, 2),
        (V2, "0::/\n", {"cg/cpu.max": "200000 100000"}, 2),
        (V2, "0::/\n", {"cg/cpu.max": "290000 100000"}, 3),
        (V2, "0::/\n", {"cg/cpu.max": "6400000 100000"}, 4),
        (V2, "0::/\n", {"cg/cpu.max": "nonsense"}, 4),
        (V2, "", {"cg/cpu.max": "nonsense"}, 4),
        (V2, "0::/a/b\n", {"cg/a/cpu.max": "150000 100000", "cg/a/b/cpu.max": "max 100000"}, 2),
        (V2, "0::/not/mounted\n", {"cg/cpu.max": "100000 100000"}, 1),
        (IN_DOCKER, "0::/docker/abc\n", {"cg/cpu.max": "150000 100000"}, 2),
        (V1, "3:cpu,cpuacct:/a\n0::/\n", limited("100000", a="90000"), 1),
        (V1, "3:cpu,cpuacct:/a\n", limited("100000", a="150000"), 2),
        (V1, "3:cpu,cpuacct:/a\n", limited("100000", _="150000", a="-1"), 2),
        (V1, "3:cpu,cpuacct:/a\n", limited("100000", _="-1"), 4),
    ],
)
def test_auto_and_the_benchmark_use_the_same_number_of_cpus(
    mounts, groups, files, cpus, tmp_path, monkeypatch
):
    """The smallest limit counts, and a part of a CPU as one."""
    monkeypatch.setattr(os, "process_cpu_count", lambda: 4)
    proc = tree(tmp_path, mounts, groups, files)
    if mounts == V1:
        (tmp_path / "cg").mkdir(exist_ok=True)
        (tmp_path / "cg/cpu").symlink_to("cpu,cpuacct")  # as systemd and container runtimes do
    assert cgroup.usable_cpus(proc) == cpus
    assert loader_cpus(tmp_path / "cg", proc / "self/cgroup") == cpus


@pytest.mark.parametrize(
    ("mounts", "groups", "file"),
    [
        (V2, "0::/a\n", "cg/a/memory.events"),
        (V1, "3:memory:/a\n", "cg/memory/a/memory.oom_control"),
    ],
)
def test_processes_killed_for_want_of_memory_are_counted(tmp_path, mounts, groups, file):
    proc = tree(tmp_path, mounts, groups, {file: "oom 5\noom_kill 2"})
    assert cgroup.kills(proc) == 2
    (proc / "vmstat").write_text("pgfault 7\noom_kill 3\n")
    assert cgroup.kills(proc) == 5
