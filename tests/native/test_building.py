"""Builds that are interrupted, that fail, that run at the same time, or that cannot start."""

import contextlib
import os
import shutil
import signal
import subprocess
import time

import psutil
import pytest

from native import build
from native import cache as store
from tests.checkout import CHECKOUT
from tests.processes import assert_gone
from tests.programs import completed

pytestmark = pytest.mark.slow

TWINS = CHECKOUT / "twins"
BUILDING = "interpreter ft (log:"


def lines_until(process, text):
    """Read the output of `process` up to the line that contains `text`; return what was read."""
    seen = []
    for line in process.stdout:
        seen.append(line)
        if text in line:
            return "".join(seen)
    pytest.fail(f"ended without {text!r}:\n{''.join(seen)}")


def left_over(directory):
    """Return the processes that work for a build in `directory`."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        if str(directory) in " ".join(process.info["cmdline"] or []) + " " + (
            process.info["cwd"] or ""
        ):
            found.append(process)
    return found


def finished_builds(base):
    return [
        path
        for name in ("interpreters", "environments")
        for path in (base / "ft-twins" / name).glob("*/finished.json")
    ]


@pytest.fixture
def start_build(start_twins, build_cache):
    return lambda: start_twins("setup", "--no-pgo", XDG_CACHE_HOME=str(build_cache))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_build_leaves_nothing_that_looks_finished(start_build, build_cache, how):
    process = start_build()
    lines_until(process, BUILDING)
    time.sleep(2)  # well into configure
    assert left_over(build_cache)
    process.send_signal(how)
    rest, _ = process.communicate()
    assert process.returncode == 130
    assert "interrupted" in rest
    assert_gone(left_over(build_cache))
    assert not left_over(build_cache)
    assert not finished_builds(build_cache)


def test_two_first_uses_wait_for_each_other(start_build):
    first = start_build()
    lines_until(first, BUILDING)
    second = start_build()
    waiting = lines_until(second, "waiting for it")
    assert str(first.pid) in waiting
    first.send_signal(signal.SIGINT)
    assert first.wait() == 130
    # The second build starts from the beginning, because the first finished nothing.
    lines_until(second, BUILDING)
    second.send_signal(signal.SIGINT)
    assert second.wait() == 130


def test_a_source_fetched_again_leaves_what_is_built_of_it(twins, cache, new_cache):
    # As after a change of docker/patches for another version. Programs may be running in the twins.
    shared = new_cache / "ft-twins"
    (shared / "source").unlink()
    for kind in ("interpreters", "environments"):
        (shared / kind).mkdir()
        for each in (cache / kind).iterdir():
            (shared / kind / each.name).symlink_to(each)
    done = twins("exec", "ft", "python", "-c", "", XDG_CACHE_HOME=str(new_cache), status=0)
    assert "CPython source: done" in done.stderr
    assert "interpreter ft (log" not in done.stderr and "packages ft (log" not in done.stderr


def test_an_interrupted_optimised_build_is_none(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    plan = build.Plan(pgo=True)
    interpreter = (
        plan.root
        / "interpreters"
        / plan.interpreter("ft").name.replace("unknown", f"{build.series()}.0")
    )
    store.start(interpreter)
    assert not plan.optimised_before({"ft"})  # else ten minutes of building where three would do
    store.finish(interpreter, {})
    assert plan.optimised_before({"ft"}) and not plan.optimised_before({"ft", "gil"})


def without_compiler(monkeypatch, folder):
    """Make *folder* the only one on PATH, with no more than `./twins` needs."""
    for name in ("bash", "dirname"):
        (folder / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(folder))


def test_twins_are_found_when_the_build_installed_the_compiler(monkeypatch, tmp_path):
    without_compiler(monkeypatch, tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHON_FROM", "source")

    def install_and_build(builder, agreed):
        gcc = tmp_path / "gcc"
        gcc.write_text("#!/bin/sh\necho 14.2.0\n")
        gcc.chmod(0o755)
        environment = build.Plan(pgo=False).environment("ft")
        store.start(environment)
        store.finish(environment, {"version": "3.13.5", "pgo": False})

    monkeypatch.setattr(build._Builder, "build", install_and_build)
    assert "gcc14.2.0" in build.twins(["ft"], quality="plain")["ft"].directory.name


def test_a_copied_cache_needs_no_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    built = build.Plan(pgo=False).interpreter("ft")
    real = (
        tmp_path
        / "ft-twins"
        / "interpreters"
        / built.name.replace("unknown", f"{build.series()}.5-2+deb13u5")
    )
    store.start(real)
    store.finish(real, {})
    without_compiler(monkeypatch, tmp_path)
    assert build.Plan(pgo=False).interpreter("ft").name == built.name


def test_killed_parent_keeps_others_out_while_its_build_runs(start_build, build_cache):
    first = start_build()
    lines_until(first, BUILDING)
    time.sleep(1)
    first.kill()
    first.wait()
    # Each step of the build has a process group. Killing groups also reaches processes that a step
    # starts just now, and spares those of the second build.
    groups = set()
    for orphan in left_over(build_cache):
        with contextlib.suppress(ProcessLookupError):
            groups.add(os.getpgid(orphan.pid))
    assert groups
    second = start_build()
    lines_until(second, "waiting for it")
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    lines_until(second, BUILDING)
    second.send_signal(signal.SIGINT)
    assert second.wait() == 130


def test_failed_download_says_why_and_leaves_nothing(twins, build_cache):
    (build_cache / "ft-twins" / "source").unlink()
    done = twins(
        "setup",
        "--no-pgo",
        XDG_CACHE_HOME=str(build_cache),
        DEBIAN_MIRROR="http://127.0.0.1:9/debian",
        DEBIAN_SECURITY_MIRROR="http://127.0.0.1:9/debian-security",
        status=1,
    )
    assert "CPython source failed" in done.stderr and "PYTHON_SUITE" in done.stderr
    assert not list((build_cache / "ft-twins" / "source").glob("*/finished.json"))
    assert not finished_builds(build_cache)


def test_series_that_the_suite_lacks_names_suites_to_try(twins, build_cache):
    (build_cache / "ft-twins" / "source").unlink()
    done = twins(
        "setup",
        XDG_CACHE_HOME=str(build_cache),
        PYTHON_SERIES="3.14",
        PYTHON_SUITE="trixie",
        status=1,
    )
    assert "PYTHON_SUITE=forky" in done.stderr


def test_compiler_error_is_shown_and_leaves_nothing(twins, build_cache):
    done = twins("setup", "--no-pgo", XDG_CACHE_HOME=str(build_cache), CC="false", status=1)
    assert (
        "failed" in done.stderr
        and "log" in done.stderr
        and "C compiler cannot create executables" in done.stderr
    )
    assert not finished_builds(build_cache)
    assert not left_over(build_cache)


def test_full_disk_is_told_before_anything_is_built(twins, new_cache):
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    small = new_cache / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", small], check=True)
    try:
        done = twins("setup", XDG_CACHE_HOME=str(small))
    finally:
        subprocess.run(["umount", small], check=True)
    assert done.returncode == 1
    assert "GB are free" in done.stderr and "XDG_CACHE_HOME" in done.stderr


def test_cache_that_cannot_be_written(twins):
    done = twins("setup", XDG_CACHE_HOME="/proc", status=1)
    assert "/proc/ft-twins" in done.stderr and "XDG_CACHE_HOME" in done.stderr


def test_a_relative_cache_is_ignored(twins, tmp_path):
    done = twins("clean", XDG_CACHE_HOME="cache", HOME=str(tmp_path))
    assert done.stdout == f"nothing to delete: {tmp_path}/.cache/ft-twins does not exist\n"


def test_other_architectures_are_named(shell_environment):
    if shutil.which("setarch") is None:
        pytest.skip("needs util-linux' setarch")
    if os.uname().machine != "x86_64":
        pytest.skip("only x86-64 can pretend to be i686")
    done = completed(["setarch", "i686", TWINS, "setup"], env=shell_environment, status=3)
    assert "i686" in done.stderr and "x86_64" in done.stderr and "aarch64" in done.stderr


def test_clean_deletes_what_was_built_and_nothing_else(twins, new_cache):
    (new_cache / "ft-twins" / "logs").mkdir()
    (new_cache / "other").mkdir()
    done = twins("clean", XDG_CACHE_HOME=str(new_cache))
    assert done.returncode == 2 and "--yes" in done.stderr
    twins("clean", "--yes", XDG_CACHE_HOME=str(new_cache), status=0)
    assert [path.name for path in (new_cache / "ft-twins").iterdir()] == ["lock"]
    assert (new_cache / "other").is_dir()
