"""The scripts of docker/ and .ci/, each called by itself."""

import re
import shutil
import subprocess

import pytest

from ftbench.report import commands
from native import build
from native.cli import VERBS
from native.interpreters import SERIES
from tests.checkout import CHECKOUT
from tests.programs import completed

pytestmark = pytest.mark.slow

USAGE_ON_ERROR = [".ci/base-image", ".ci/coverage", ".ci/engine", ".ci/publish-images"] + [
    f"docker/{name}"
    for name in (
        "build-cpython",
        "debian-apt",
        "download-cpython",
        "fetch-cpython",
        "install-packages",
        "patch-cpython",
    )
]
SCRIPTS = [*USAGE_ON_ERROR, ".ci/release-check", "docker/apt-install", "docker/lock"]


def run(environment, script, *arguments, status=None, **variables):
    return completed([CHECKOUT / script, *arguments], status, env={**environment, **variables})


@pytest.mark.parametrize("script", SCRIPTS)
def test_help(shell_environment, script):
    done = run(shell_environment, script, "--help", status=0)
    assert done.stdout.startswith(f"usage: {script}")


@pytest.mark.parametrize("script", USAGE_ON_ERROR)
def test_wrong_usage(shell_environment, script):
    done = run(shell_environment, script, "--frobnicate", status=2)
    assert "usage:" in done.stderr


def test_the_default_series_is_set_in_one_file(monkeypatch):
    monkeypatch.delenv("PYTHON_SERIES", raising=False)
    default = (CHECKOUT / "docker" / "python-series").read_text().strip()
    assert build.series() == default == commands.DEFAULT_SERIES
    for name in ("Dockerfile.ft", "Dockerfile.gil", "compose.yaml"):
        assert not re.search(r"PYTHON_SERIES[=:-]+[0-9]", (CHECKOUT / name).read_text()), name


def test_twins_are_configured_alike(shell_environment):
    # --print-flags knows no twin: what it prints is what both get, and --disable-gil is not in it.
    flags = run(shell_environment, "docker/build-cpython", "--print-flags").stdout
    assert "--enable-optimizations" in flags and "gil" not in flags
    plain = run(shell_environment, "docker/build-cpython", "--print-flags", "--no-pgo").stdout
    assert "--enable-optimizations" not in plain


def test_base_image_without_an_engine_says_what_to_do(shell_environment):
    if shutil.which("docker", path=shell_environment["PATH"]) is None:
        pytest.skip("the docker command is not installed")
    done = run(
        shell_environment, ".ci/base-image", DOCKER_HOST="unix:///nonexistent.sock", status=1
    )
    assert ".ci/engine start" in done.stderr


def test_engine_that_does_not_run(shell_environment, tmp_path):
    home = {"ENGINE_HOME": str(tmp_path / "engine")}
    assert run(shell_environment, ".ci/engine", "status", **home).returncode == 3
    done = run(shell_environment, ".ci/engine", "exec", "docker", "ps", **home)
    assert done.returncode == 1 and ".ci/engine start" in done.stderr
    assert (
        run(shell_environment, ".ci/engine", "stop", **home).stdout == ".ci/engine: not running\n"
    )


def test_engine_prints_settings_that_a_shell_may_evaluate(shell_environment, tmp_path):
    home = f"{tmp_path}/it's $(touch {tmp_path}/touched)"
    said = run(shell_environment, ".ci/engine", "env", ENGINE_HOME=home).stdout
    done = completed(["bash", "-c", f'{said}\necho "$DOCKER_CONFIG"'])
    assert done.stdout == f"{home}/config\n" and not (tmp_path / "touched").exists()


def test_engine_touches_no_directory_but_its_own(shell_environment, tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "thesis").touch()
    home = {"ENGINE_HOME": str(tmp_path)}
    for verb in ("start", "remove"):
        done = run(shell_environment, ".ci/engine", verb, **home)
        assert done.returncode == 1 and str(tmp_path) in done.stderr or "needs root" in done.stderr
    assert [path.name for path in tmp_path.rglob("*")] == ["root", "thesis"]
    own = tmp_path / "own"
    own.mkdir()
    (own / "made-by-docker-engine").touch()
    (own / "data").mkdir()
    assert run(shell_environment, ".ci/engine", "remove", ENGINE_HOME=str(own)).returncode == 0
    assert not own.exists() and (tmp_path / "root" / "thesis").exists()


def test_engine_stops_no_process_but_its_own(shell_environment, tmp_path):
    with subprocess.Popen(["sleep", "600"]) as other:
        (tmp_path / "docker.pid").write_text(f"{other.pid}\n")
        done = run(shell_environment, ".ci/engine", "stop", ENGINE_HOME=str(tmp_path))
        assert done.stdout == ".ci/engine: not running\n" and other.poll() is None
        other.kill()


def test_engine_ignores_a_relative_cache(shell_environment, tmp_path):
    done = run(
        shell_environment, ".ci/engine", "--help", XDG_CACHE_HOME="cache", HOME=str(tmp_path)
    )
    assert f"(now {tmp_path}/.cache/ft-twins/engine)" in done.stdout


def test_revision_of_a_checkout(shell_environment, tmp_path):
    assert run(shell_environment, "docker/revision", str(tmp_path)).stdout == "unknown\n"
    git = tmp_path / ".git"
    git.mkdir()
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "packed-refs").write_text("# pack-refs\n0123abc refs/heads/main\n")
    assert run(shell_environment, "docker/revision", str(tmp_path)).stdout == "0123abc\n"
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "refs" / "heads" / "main").write_text("4567def\n")
    assert run(shell_environment, "docker/revision", str(tmp_path)).stdout == "4567def\n"


def test_ci_runs_every_series_from_a_suite_that_has_it():
    workflow = (CHECKOUT / ".github" / "workflows" / "ci.yml").read_text()
    named = re.findall(r'\{series: "([\d.]+)", suite: (\w+)\}', workflow)
    assert [series for series, _ in named] == list(SERIES)
    for series, suite in named:
        done = completed(
            [CHECKOUT / "docker" / "fetch-cpython", "--default-suite", series], status=0
        )
        assert done.stdout.strip() == suite
    for command in re.findall(r"\./twins (\w+)", workflow):
        assert command in VERBS
