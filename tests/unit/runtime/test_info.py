"""The description of the environment, and what --verify refuses."""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from unittest import mock

import pytest

from ftrun import environment as env
from ftrun import imports
from ftrun import info as environment_info
from tests.programs import completed


def lock_of(path, **versions: str):
    """A lock file of these packages, with hashes as a real one has them."""
    path.write_text(
        "# a comment\n"
        + "".join(
            f"{name}=={version} \\\n    --hash=sha256:{'0' * 64}\n"
            for name, version in versions.items()
        )
    )
    return path


def installed(*names: str) -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in names}


@pytest.fixture
def run_info(monkeypatch, capsys):
    """Runs the program in this process, without asking torch for GPUs;
    returns its exit status and its output.
    """
    monkeypatch.setattr(environment_info, "TORCH_CUDA", "raise SystemExit(1)")

    def run(*arguments: object) -> tuple[int, str, str]:
        return environment_info.main([*map(str, arguments)]), *capsys.readouterr()

    return run


@pytest.mark.slow
def test_verified(run_info, twin, tmp_path):
    if sys._is_gil_enabled() and twin == "ft":
        pytest.skip("PYTHON_GIL=1: this is not the environment that --expect ft verifies")
    lock = lock_of(tmp_path / "lock", **installed("pillow", "numpy", "psutil"))
    status, said, errors = run_info("--verify", "--expect", twin, "--lock", lock)
    assert status == 0 and f"verified: {twin} twin, 3 locked packages" in said, errors


@pytest.mark.slow
def test_without_cuda(run_info, twin, monkeypatch, tmp_path):
    gpu = {"nvidia-cublas-cu12": "12.8.4.1", "cuda-bindings": "12.9.4"}
    lock = lock_of(tmp_path / "lock", torch="2.10.0", **gpu, **installed("psutil"))
    packages = {**installed("psutil"), "torch": "2.10.0+cpu"}
    monkeypatch.setattr(env, "packages", lambda: packages)
    status, said, errors = run_info("--verify", "--lock", lock)
    assert status == 0 and "2 locked packages, without CUDA\n" in said, errors
    packages["torch"] = "2.9.1+cpu"
    status, _, errors = run_info("--verify", "--lock", lock)
    assert status == 1 and "torch is 2.9.1+cpu, the lock says 2.10.0+cpu" in errors


@pytest.mark.parametrize("delay, words", [("1000", "is 1000"), (None, "is not set: freed memory")])
def test_the_delay_of_the_allocator_is_shown(run_info, twin, monkeypatch, tmp_path, delay, words):
    monkeypatch.delenv("MIMALLOC_PURGE_DELAY", raising=False)
    if delay:
        monkeypatch.setenv("MIMALLOC_PURGE_DELAY", delay)
    _, said, _ = run_info("--lock", lock_of(tmp_path / "lock"))
    # nothing to say with the GIL
    assert (f"MIMALLOC_PURGE_DELAY {words}" in said) == (twin == "ft")


@pytest.mark.slow
def test_everything_wrong_is_listed(run_info, twin, tmp_path):
    other = {"ft": "gil", "gil": "ft"}[twin]
    lock = lock_of(tmp_path / "lock", numpy="1.0", no_such_package="2.0", **installed("psutil"))
    assert run_info("--lock", lock)[0] == 1
    status, _, errors = run_info("--verify", "--expect", other, "--lock", lock)
    assert status == 1
    assert f"this interpreter is the {twin!r} twin" in errors
    assert "the lock says 1.0" in errors
    assert "no-such-package 2.0 is locked but not installed" in errors


@pytest.mark.slow
def test_gil_forced_on_is_not_the_ft_twin(run_bench, environment, twin, tmp_path):
    if twin != "ft":
        pytest.skip("a GIL build has no PYTHON_GIL")
    lock = lock_of(tmp_path / "lock", **installed("psutil"))
    done = run_bench(
        "--verify",
        "--expect",
        "ft",
        "--lock",
        lock,
        module="ftrun.info",
        env={**environment, "PYTHON_GIL": "1"},
    )
    assert done.returncode == 1 and "PYTHON_GIL=1 is set" in done.stderr


@pytest.mark.slow
def test_json(run_bench, twin, tmp_path):
    done = run_bench(
        "--json",
        "--lock",
        lock_of(tmp_path / "lock", **installed("pillow")),
        module="ftrun.info",
        status=0,
    )
    info = json.loads(done.stdout)
    assert info["interpreter"]["free_threaded"] == (twin == "ft")
    assert info["interpreter"]["build"].startswith(("PGO build", "plain build (no PGO)"))
    (pillow,) = info["imports"]
    assert pillow["extensions"] > 0
    assert pillow["gil_enabled_after_import"] == (twin == "gil")
    assert info["gpu"]["devices"] or info["gpu"]["reason"]
    assert info["packages"]["numpy"] == importlib.metadata.version("numpy")


@pytest.mark.slow
def test_a_narrow_terminal_of_another_locale(
    run_bench, run_info, environment, monkeypatch, tmp_path
):
    lock = lock_of(tmp_path / "lock", **installed("charset-normalizer"))
    narrow = {**environment, "COLUMNS": "10", "PYTHONIOENCODING": "ascii"}
    run_bench("--lock", lock, module="ftrun.info", env=narrow, status=0)
    monkeypatch.setenv("COLUMNS", "60")
    status, said, errors = run_info("--lock", lock, "--packages")
    assert status == 0 and "charset-normalizer " in said, errors


@pytest.mark.slow
def test_packages_without_a_problem_are_counted_and_listed_on_demand(run_info, tmp_path):
    lock = lock_of(tmp_path / "lock", **installed("psutil", "charset-normalizer"))
    status, said, errors = run_info("--lock", lock)
    assert status == 0 and "GIL after import" not in said, errors
    assert "\npackages         2 locked ones can be imported" in said
    _, said, _ = run_info("--lock", lock, "--packages")
    assert "\npsutil " in said and "locked ones" not in said


def test_a_package_with_a_problem_is_always_listed(capsys):
    printer = environment_info.Printer()
    usual = {"installed": "1", "extensions": 0, "gil_enabled_after_import": False}
    for name, errors in (("good", []), ("bad", ["it is broken"])):
        printer.package({"name": name, "errors": errors, **usual})
    printer.end({"gpu": {"torch": None}, "remarks": []})
    said = capsys.readouterr().out
    assert "\nbad " in said and "it is broken" in said and "\ngood " not in said
    assert "2 locked ones were imported, 1 with a problem (--packages: all rows)" in said


@pytest.mark.parametrize(
    "content, word",
    [
        (None, "cannot read"),
        ("numpy>=2\n", "not a pinned requirement"),
        ("==1\n", "not a pinned requirement"),
    ],
)
def test_bad_lock(run_info, tmp_path, content, word):
    if content is not None:
        (tmp_path / "lock").write_text(content)
    status, _, errors = run_info("--verify", "--lock", tmp_path / "lock")
    assert status == 2 and word in errors


def test_interrupted(monkeypatch):
    monkeypatch.setattr(environment_info, "collect", mock.Mock(side_effect=KeyboardInterrupt))
    assert environment_info.main([]) == 130


def test_markers_decide_what_is_locked(tmp_path):
    (tmp_path / "lock").write_text(
        "a==1 ; sys_platform == 'win32' \\\n    --hash=sha256:00\n"
        "B_c==2 ; sys_platform == 'linux'\n"
    )
    assert imports.read_lock(tmp_path / "lock") == {"b-c": "2"}


@pytest.fixture
def packages(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(name: str, source: str) -> None:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(source)
        information = tmp_path / f"{name}-1.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (information / "RECORD").write_text(f"{name}/__init__.py,,\n")
        importlib.invalidate_caches()

    return make


def test_every_package_is_judged_whatever_those_before_it_do(packages):
    packages("prints", "import sys; print('out'); print('err', file=sys.stderr)")
    packages("raises", "raise ImportError('needs something')")
    packages("exits", "raise SystemExit(3)")
    packages("crashes", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    packages("fine", "")
    names = ["prints", "raises", "exits", "crashes", "fine"]
    found = {v.name: v for v in imports.judge(names)}
    assert list(found) == names
    assert found["prints"].warnings == ["err"] and not found["prints"].errors
    assert found["raises"].errors == ["raises: ImportError: needs something"]
    assert found["exits"].errors == ["exits: SystemExit: 3"]
    assert "ended the interpreter (status -9)" in found["crashes"].errors[0]
    assert not found["fine"].errors and found["fine"].modules == 1


@pytest.mark.slow
def test_all_imports_together_have_one_time_limit(tmp_path):
    for number in range(6):  # each ends its interpreter, so the next is imported in a new one
        code = "import os, time; open(__file__ + '-begun', 'w'); time.sleep(1); os._exit(1)\n"
        (tmp_path / f"ends_{number}.py").write_text(code)
    waiting = [(name, "", [name], []) for name in (f"ends_{number}" for number in range(6))]
    with pytest.raises(subprocess.TimeoutExpired):
        list(imports.judge_modules(waiting, 2.5, [str(tmp_path)]))
    assert len(list(tmp_path.glob("*-begun"))) < 6


def test_an_offender_is_found_and_does_not_hide_the_next(run_info, twin, tmp_path):
    """triton up to 3.6 turns the GIL on (the lock leaves it out);
    packages after it are judged afresh.
    """
    if twin != "ft":
        pytest.skip("a GIL build has no GIL to turn on")
    try:
        versions = installed("triton", "numpy")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("no package that turns the GIL on is installed (triton is known to)")
    triton, numpy = imports.judge(["triton", "numpy"])
    assert not numpy.turned_gil_on
    if not triton.turned_gil_on:
        pytest.skip(f"triton {triton.installed} leaves the GIL off")
    assert any("global interpreter lock" in line for line in triton.warnings)
    status, _, errors = run_info("--verify", "--lock", lock_of(tmp_path / "lock", **versions))
    assert status == 1 and f"importing triton {triton.installed} turns the GIL on" in errors


@pytest.fixture
def configured(monkeypatch, tmp_path):
    """Make the interpreter describe itself as built with these variables of sysconfig. Returns the
    folder that it takes for its own.
    """
    real = sysconfig.get_config_var

    def configure(**variables):
        monkeypatch.setattr(
            sysconfig, "get_config_var", lambda name: variables.get(name, real(name))
        )
        monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
        return tmp_path

    return configure


def test_pgo_is_read_from_the_build(configured):
    for flags, build in (
        ("'--enable-optimizations' '--disable-gil'", "PGO build"),
        ("", "plain build (no PGO)"),
    ):
        configured(CONFIG_ARGS=flags, PYTHON_BUILD_STANDALONE=None)
        assert env.interpreter()["build"] == build


def test_the_build_names_where_it_comes_from(configured):
    folder = configured(CONFIG_ARGS="--enable-optimizations", PYTHON_BUILD_STANDALONE=1)
    assert env.interpreter()["build"] == "PGO build of python-build-standalone"
    (folder / "BUILD").write_text("20261110")
    assert env.interpreter()["build"] == "PGO build of python-build-standalone 20261110"
    patches = folder / "share" / "cpython" / "PATCHES"
    patches.parent.mkdir(parents=True)
    patches.write_text("0123  a.patch  a fix\n")
    assert env.interpreter()["build"] == "PGO build from source"
    assert env.interpreter()["upstream_fixes"] == 1


def git(directory, *arguments: str) -> str:
    if shutil.which("git") is None:
        pytest.skip("no git here")
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    return completed(["git", "-C", str(directory), *who, *arguments], check=True).stdout.strip()


@pytest.mark.slow
def test_revision(tmp_path):
    assert env.revision(tmp_path) == {"commit": "unknown", "dirty": None, "from": None}
    (tmp_path / "REVISION").write_text("abc123\n")
    assert env.revision(tmp_path) == {"commit": "abc123", "dirty": None, "from": "REVISION"}
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert env.revision(tmp_path) == {"commit": commit, "dirty": False, "from": "git"}
    (tmp_path / "new").write_text("")
    assert env.revision(tmp_path)["dirty"] is True
    (tmp_path / "inside").mkdir()
    assert env.revision(tmp_path / "inside")["commit"] == "unknown"  # somebody else's repository


@pytest.mark.slow
def test_revision_in_a_directory_of_another_locale(tmp_path):
    here = tmp_path / os.fsdecode(b"\xff")
    here.mkdir()
    git(here, "init", "-q")
    git(here, "commit", "-qm", "first", "--allow-empty")
    assert env.revision(here) == {
        "commit": git(here, "rev-parse", "HEAD"),
        "dirty": False,
        "from": "git",
    }


def test_source_hash_follows_the_sources(tmp_path):
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench/a.py").write_text("1")
    first = env.source_hash([tmp_path / "bench"])
    (tmp_path / "bench/notes.pyc").write_text("x")
    assert env.source_hash([tmp_path / "bench"]) == first
    (tmp_path / "bench/a.py").write_text("2")
    assert env.source_hash([tmp_path / "bench"]) != first
