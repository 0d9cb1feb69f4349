"""Limits of control groups, from trees of files as the kernel lays them out."""

import os
from pathlib import Path

import pytest

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
        (V1, "3:cpu,cpuacct:/\n", "cg/cpu,cpuacct/cpu.stat", "nr_throttled 4\nthrottled_time 2500000000"),
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


@pytest.mark.parametrize("quota, expected", [(None, 4), (0.5, 1), (1.5, 2), (2.0, 2), (2.9, 3), (64.0, 4)])
def test_usable_cpus(monkeypatch, quota, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    monkeypatch.setattr(cgroup, "cpu_quota", lambda: quota)
    assert cgroup.usable_cpus() == expected


@pytest.mark.parametrize(
    ("mounts", "groups", "file"),
    [(V2, "0::/a\n", "cg/a/memory.events"), (V1, "3:memory:/a\n", "cg/memory/a/memory.oom_control")],
)
def test_processes_killed_for_want_of_memory_are_counted(tmp_path, mounts, groups, file):
    proc = tree(tmp_path, mounts, groups, {file: "oom 5\noom_kill 2"})
    assert cgroup.kills(proc) == 2
    (proc / "vmstat").write_text("pgfault 7\noom_kill 3\n")
    assert cgroup.kills(proc) == 5
