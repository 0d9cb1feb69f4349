"""Interpreters that uv downloads, here from archives of the built twins in the layout of
python-build-standalone, and the choice between them and those built from source.
"""

import hashlib
import io
import json
import os
import platform
import socket
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

from native import TwinsError, build, download
from native import cache as store
from tests.checkout import CHECKOUT
from tests.programs import completed

RELEASE = "20261110"
UV = (CHECKOUT / "docker" / "uv.in").read_text().strip()
TWINS = ("ft", "gil")
LEFT_OUT = ("__pycache__", "site-packages", "test", "idlelib", "PATCHES", "finished.json")
"""Names of what no archive needs, and of what its interpreters would not have."""


def entry(twin: str, version: str, archive: Path) -> dict:
    """Return the entry of an archive in uv's list of releases."""
    major, minor, patch = map(int, version.split("."))
    return {
        "name": "cpython",
        "arch": {"family": platform.machine(), "variant": None},
        "os": "linux",
        "libc": "gnu",
        "major": major,
        "minor": minor,
        "patch": patch,
        "prerelease": "",
        "variant": "freethreaded" if twin == "ft" else None,
        "build": RELEASE,
        "url": archive.as_uri(),
        "sha256": sha256(archive),
    }


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def pack(home: Path, archive: Path, old: bytes = b"\n", new: bytes = b"\n") -> Path:
    """Pack an interpreter as python-build-standalone does. Replace *old* in its record of the
    build.
    """
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        for path in sorted(home.rglob("*")):
            relative = path.relative_to(home)
            if any(part in LEFT_OUT for part in relative.parts) or path.suffix == ".a":
                continue
            member = packed.gettarinfo(path, f"python/{relative}")
            if member.isreg():
                content = path.read_bytes()
                if path.name.startswith("_sysconfigdata"):
                    content = content.replace(str(home).encode(), b"/install").replace(old, new)
                member.size = len(content)
                packed.addfile(member, io.BytesIO(content))
            else:
                packed.addfile(member)
    return archive


@pytest.fixture(scope="module")
def homes(shell_environment):
    """The folders of the built interpreters."""
    folders = {}
    for twin in TWINS:
        command = [
            CHECKOUT / "twins",
            "exec",
            twin,
            "python",
            "-c",
            "import sys; print(sys.base_prefix)",
        ]
        folders[twin] = Path(completed(command, status=0, env=shell_environment).stdout.strip())
    return folders


@pytest.fixture(scope="module")
def version(homes):
    """CPython's version in the archives."""
    ask = "import platform; print(platform.python_version())"
    return completed([homes["ft"] / "bin" / "python3", "-c", ask], status=0).stdout.strip()


@pytest.fixture(scope="module")
def archives(homes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("archives")
    return {twin: pack(home, folder / f"{twin}.tar.gz") for twin, home in homes.items()}


@pytest.fixture
def release(archives, version, tmp_path):
    """Write a list of releases, with changes to the entries of twins, None to leave one out. Returns
    the list's address.
    """

    def write(**changes):
        listed = {}
        for twin, archive in archives.items():
            change = changes.get(twin, {})
            if change is not None:
                variant = "+freethreaded" if twin == "ft" else ""
                key = f"cpython-{version}{variant}-linux-{platform.machine()}-gnu"
                listed[key] = {**entry(twin, version, archive), **change}
        text = json.dumps(listed)
        file = tmp_path / f"{hashlib.sha256(text.encode()).hexdigest()}.json"
        file.write_text(text)
        return file.as_uri()

    return write


@pytest.fixture
def shell_with_uv(shell_environment, cache):
    """The variables of a shell with the locked uv, which spares each program installing it."""
    tools = cache / "tools" / UV / "bin"
    return {**shell_environment, "PATH": f"{tools}{os.pathsep}{shell_environment['PATH']}"}


@pytest.fixture
def fetch(shell_with_uv, version, tmp_path):
    """Run docker/download-cpython with a list of releases, into the folder that it returns too."""

    def run(releases, *options, status=0, **variables):
        folder = tmp_path / "downloaded"
        environment = {**shell_with_uv, download.LIST: releases, **variables}
        series = version.rpartition(".")[0]
        command = [CHECKOUT / "docker" / "download-cpython", series, folder, *options]
        return completed(command, status, env=environment), folder

    return run


@pytest.mark.slow
def test_both_interpreters_of_one_release(fetch, release, version):
    done, folder = fetch(release(), "--prefix", "/usr/local")
    assert done.stdout.endswith(
        f"CPython {version} and {version}t of python-build-standalone {RELEASE}\n"
    )
    assert (folder / "version").read_text() == f"{version} {RELEASE}\n"
    code = (
        "import ftrun.environment as e, json, ssl, sysconfig; "
        "print(json.dumps([e.interpreter(), sysconfig.get_config_var('LIBDIR')]))"
    )
    for twin in TWINS:
        python = folder / twin / "bin" / "python3"
        asked = completed(
            [python, "-c", code], status=0, env={"PYTHONPATH": str(CHECKOUT / "runtime")}
        )
        facts, libraries = json.loads(asked.stdout)
        assert facts["twin"] == twin and facts["version"] == version
        assert facts["build"].endswith(f"of python-build-standalone {RELEASE}")
        assert libraries == "/usr/local/lib"
        assert not list(folder.glob(f"{twin}/lib/python3*/EXTERNALLY-MANAGED"))
        assert list(folder.glob(f"{twin}/lib/python3*/__pycache__/os.*.pyc"))


@pytest.mark.slow
def test_archives_that_are_not_what_the_list_says(fetch, release, archives, tmp_path):
    half = tmp_path / "half.tar.gz"
    content = archives["gil"].read_bytes()
    half.write_bytes(content[: len(content) // 2])
    other = release(ft={"sha256": "0" * 64})
    for releases, reason in (
        (other, "Hash mismatch"),
        (release(gil={"url": half.as_uri()}), "unexpected end of file"),
        (release(gil={"url": half.as_uri(), "sha256": sha256(half)}), "unexpected end of file"),
        (release(ft=None), "No download found"),
        ((tmp_path / "none.json").as_uri(), "none.json"),
    ):
        done, folder = fetch(releases, status=None)
        assert done.returncode and reason in done.stderr, done.stderr
        assert not list(folder.iterdir())
    done, folder = fetch(other, "--from", "auto")
    assert "are to be built from source" in done.stdout and not list(folder.iterdir())


@pytest.mark.slow
def test_builds_that_differ_in_more_than_the_gil(fetch, release, homes, tmp_path):
    changed = pack(homes["gil"], tmp_path / "gil.tar.gz", b"ensurepip", b"something")
    done, folder = fetch(
        release(gil={"url": changed.as_uri(), "sha256": sha256(changed)}), status=1
    )
    assert "differ in more than the GIL: flags" in done.stderr and not list(folder.iterdir())


@pytest.mark.slow
def test_a_server_that_never_answers(fetch, release):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/cpython.tar.gz"
        start = time.monotonic()
        fetch(release(ft={"url": address}), status=1, UV_HTTP_TIMEOUT="2")
        assert 2 < time.monotonic() - start < 15


def test_where_no_place_answers_nothing_is_installed(tmp_path):
    # A new network namespace has no network, and "no" is no Python that could install uv.
    isolated = ["unshare", "--map-root-user", "--net"]
    if subprocess.run([*isolated, "true"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("this user may make no network namespace")
    script = CHECKOUT / "docker" / "download-cpython"
    start = time.monotonic()
    done = completed(
        [*isolated, script, "3.13", tmp_path, "--from", "auto", "--python", "no"],
        status=0,
        env={"PATH": os.environ["PATH"]},
    )
    assert time.monotonic() - start < 10
    assert done.stderr.endswith("neither releases.astral.sh nor github.com can be reached\n")
    assert "are to be built from source" in done.stdout and not list(tmp_path.iterdir())


@pytest.mark.slow
def test_without_a_network_twins_are_built_from_source(twins, shell_with_uv, build_cache):
    variables = {
        "XDG_CACHE_HOME": str(build_cache),
        "PATH": shell_with_uv["PATH"],
        download.LIST: "http://127.0.0.1:9/list.json",
    }
    # A compiler that fails ends the build that is tried then.
    done = twins("setup", "--no-pgo", **variables, PYTHON_FROM="auto", CC="false", status=1)
    before, _, after = done.stderr.partition("interpreter ft (log:")
    assert "built from source; they could not be downloaded: " in before
    assert "C compiler cannot create executables" in after
    done = twins("setup", **variables, PYTHON_FROM="download", status=1)
    assert "interpreter ft" not in done.stderr and "list.json" in done.stderr


@pytest.mark.slow
def test_a_downloaded_twin(small_copy, release, shell_with_uv, new_cache):
    variables = {"XDG_CACHE_HOME": str(new_cache), download.LIST: release()}
    code = (
        "import sys; from ftrun import environment as e; "
        "print(sys.prefix, e.interpreter()['build'], sep='\\n')"
    )
    done = completed(
        [small_copy / "twins", "exec", "ft", "python", "-c", code],
        env={**shell_with_uv, **variables, "PYTHON_FROM": "auto"},
        status=0,
    )
    assert f" of python-build-standalone {RELEASE}\n" in done.stderr
    prefix, words = done.stdout.splitlines()
    assert prefix.startswith(f"{new_cache}/ft-twins/environments/") and "-downloaded-" in prefix
    assert words.endswith(f" of python-build-standalone {RELEASE}")


# Which twins are used, and where new ones come from.


@pytest.fixture
def choose(monkeypatch, tmp_path):
    """Build twins in an empty cache with steps that do nothing. Returns the names of the
    interpreters' folders that are used, and what was said.
    """
    for name in ("PYTHON_SUITE", "PYTHON_SERIES", "FT_PYTHON", "GIL_PYTHON", download.LIST):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def build_nothing(builder, agreed):
        plan = builder._plan
        for twin in builder._missing.environments:
            if not plan.downloaded:
                fill(plan.interpreter(twin), {})
            fill(plan.environment(twin), {"version": "3.13.5", "pgo": plan.pgo})

    def fill(part, record):
        store.start(part)
        store.finish(part, record)

    def run(names, choice, reachable=True, quality="any"):
        def fetch(part, *arguments, probed):
            if not reachable:
                raise TwinsError("failed; its log:\nerror: x\n  cause: a\n  cause: no route")
            fill(part, {"version": "3.13.18", "release": RELEASE, "pgo": True})
            return "two interpreters"

        monkeypatch.setattr(build._Builder, "build", build_nothing)
        monkeypatch.setattr(download, "run", fetch)
        monkeypatch.setenv("PYTHON_FROM", choice)
        lines = []
        ready = build.twins(names, quality, say=lines.append)
        places = {
            "download" if "-downloaded-" in twin.directory.name else "source"
            for twin in ready.values()
        }
        assert len(places) == 1
        return places.pop(), lines

    return run


def test_a_new_cache_gets_what_can_be_had(choose):
    place, (line,) = choose(TWINS, "auto")
    assert place == "download" and line == "The interpreters were downloaded: two interpreters"
    # Optimised, they serve a caller that wants optimised ones, or any.
    assert choose(TWINS, "auto", reachable=False, quality="pgo") == ("download", [])
    assert choose(["gil"], "download", reachable=False) == ("download", [])


def test_what_is_in_the_cache_is_used_without_a_network(choose):
    place, (line,) = choose(["ft"], "auto", reachable=False)
    assert place == "source" and line.endswith("could not be downloaded: a: no route")
    # The other twin comes from the same place, now that the network is there.
    assert choose(["gil"], "auto") == ("source", [])
    assert choose(TWINS, "auto") == ("source", [])
    assert choose(TWINS, "download")[0] == "download"
    assert choose(TWINS, "source", reachable=False) == ("source", [])


def test_a_download_that_has_to_be_is_not_replaced(choose):
    with pytest.raises(TwinsError, match="no route"):
        choose(TWINS, "download", reachable=False)
    assert choose(TWINS, "source", reachable=False) == ("source", [])


def test_choices_that_contradict_each_other(monkeypatch):
    monkeypatch.setenv("PYTHON_SUITE", "forky")
    monkeypatch.setenv("PYTHON_FROM", "auto")
    assert download.choice() == "source"
    for named, complaint in (("download", "uses none"), ("pypi", "must be one of auto, ")):
        monkeypatch.setenv("PYTHON_FROM", named)
        with pytest.raises(TwinsError, match=complaint):
            download.choice()
