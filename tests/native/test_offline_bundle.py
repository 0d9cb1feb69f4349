"""docker/offline-bundle: its arguments, its archive with its checksums, and the linking on the target.

The whole (downloads of gigabytes, an unpacking without a network) is not tried here; the parts are, with tiny files.
"""

import os
import shutil
import subprocess

import pytest

from native.offline import archive, finish
from native.offline import bundle as bundling
from tests.checkout import CHECKOUT

DOCKER = CHECKOUT / "docker"


@pytest.fixture
def bundle(tmp_path):
    """A bundle of 5 MiB that holds no twins, in parts of 1 MiB."""
    stage, out = tmp_path / "stage", tmp_path / "bundle"
    stage.mkdir()
    out.mkdir()
    noise = os.urandom(5 << 20)  # which xz cannot make smaller
    (stage / "noise").write_bytes(noise)
    (stage / "again").write_bytes(noise)
    assert archive.share_equal_files(stage) == len(noise)
    shutil.copy(DOCKER / "offline" / "unpack", out)
    (out / "glibc").write_text("glibc 2.17\n")
    parts = archive.write(stage, out, 1 << 20, lambda process: None)
    assert len(parts) == 6 and all(part.stat().st_size <= 1 << 20 for part in parts)
    return out


def unpack(environment, bundle, *arguments):
    return subprocess.run(
        [bundle / "unpack", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


def make(environment, *arguments):
    return subprocess.run(
        [DOCKER / "offline-bundle", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize(
    "arguments, says",
    [
        ([], "DIR"),
        (["{new}", "--split", "nonsense"], "not a size of at least 1M"),
        (["{new}", "--split", "10K"], "not a size of at least 1M"),
        (["{new}", "--torch-libraries", "borrow"], "invalid choice"),
        (["{full}"], "is not empty"),
        (["{file}/bundle"], "cannot write to"),
    ],
)
def test_wrong_arguments(shell_environment, tmp_path, arguments, says):
    full = tmp_path / "full"
    full.mkdir()
    (full / "file").touch()
    names = {"new": tmp_path / "new", "full": full, "file": full / "file"}
    done = make(shell_environment, *(each.format(**names) for each in arguments))
    assert done.returncode == 2 and says in done.stderr
    assert list(full.iterdir()) == [full / "file"]


def test_help_of_unpack(shell_environment, bundle):
    done = unpack(shell_environment, bundle, "--help")
    assert done.returncode == 0 and done.stdout.startswith("usage: unpack DIR")
    assert unpack(shell_environment, bundle).returncode == 2
    assert unpack(shell_environment, bundle, "--frobnicate").returncode == 2


def test_whole_parts(shell_environment, bundle):
    done = unpack(shell_environment, bundle, "--check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "all files are here and whole\n", "")


def test_missing_parts_are_named(shell_environment, bundle, tmp_path):
    (bundle / "contents.tar.xz.001").unlink()
    (bundle / "contents.tar.xz.004").unlink()
    for arguments in (["--check"], [str(tmp_path / "twins")]):
        done = unpack(shell_environment, bundle, *arguments)
        assert done.returncode == 1
        assert "missing: contents.tar.xz.001 contents.tar.xz.004\n" in done.stderr
    assert not (tmp_path / "twins").exists()


def test_damaged_part_is_named(shell_environment, bundle, tmp_path):
    part = bundle / "contents.tar.xz.003"
    content = bytearray(part.read_bytes())
    content[1000] ^= 1
    part.write_bytes(content)
    done = unpack(shell_environment, bundle, str(tmp_path / "twins"))
    assert done.returncode == 1
    assert "contents.tar.xz.003" in done.stdout + done.stderr and "damaged" in done.stderr
    assert not (tmp_path / "twins").exists()


def test_contents_come_back(shell_environment, bundle, tmp_path):
    twins = tmp_path / "twins"
    done = unpack(shell_environment, bundle, str(twins))
    # There is no interpreter in this one to go on with.
    assert done.returncode == 1 and "no interpreter" in done.stderr
    assert (twins / "noise").read_bytes() == (tmp_path / "stage" / "noise").read_bytes()
    assert (twins / "noise").samefile(twins / "again")
    again = unpack(shell_environment, bundle, str(twins))
    assert again.returncode == 1 and "exists already" in again.stderr


def test_sizes():
    assert archive.bytes_of("60M") == 60 << 20 and archive.bytes_of("2GiB") == 2 << 30
    for text in ("", "M", "-1M", "1.5G", "1T", "1048575"):
        with pytest.raises(ValueError):
            archive.bytes_of(text)


def test_libraries_are_found_with_their_family(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    for path in (
        first / "libcudnn.so.9",
        second / "libcudnn.so.9",
        first / "libcudnn_ops.so.9",
        second / "libnvrtc.so.13",
        second / "libnvrtc-builtins.so.13.0",
        second / "libcublas.so.12",
    ):
        path.parent.mkdir(exist_ok=True)
        path.write_text(str(path))
    found, absent = finish.find_libraries(["libcublas.so.13", "libcudnn.so.9", "libnvrtc.so.13"], [first, second])
    assert absent == ["libcublas.so.13"]
    assert sorted(found) == ["libcudnn.so.9", "libcudnn_ops.so.9", "libnvrtc-builtins.so.13.0", "libnvrtc.so.13"]
    assert found["libcudnn.so.9"].parent == first
    into = tmp_path / "into"
    into.mkdir()
    (into / "libnvrtc.so.13").write_text("the bundle's own")
    finish.link(found.values(), into)
    assert (into / "libcudnn_ops.so.9").read_text() == str(first / "libcudnn_ops.so.9")
    assert (into / "libnvrtc.so.13").read_text() == "the bundle's own"


def test_another_torch_is_not_linked(tmp_path):

    def torch(name, version, commit):
        lib = tmp_path / name / "torch" / "lib"
        lib.mkdir(parents=True)
        (lib.parent / "version.py").write_text(f"__version__ = '{version}'\ngit_version = '{commit}'\n")
        return lib.parent

    twin = torch("twin", "9.8.7+cu130", "a" * 40)
    other = torch("other", "9.8.7+cu130", "b" * 40)
    (other / "lib" / "libtorch_cpu.so").touch()
    with pytest.raises(finish.Missing, match="9.8.7.cu130 of commit bbbbbbbbb"):
        finish.link_torch(twin, ["libtorch_cpu.so"], [tmp_path / "other", tmp_path / "none"])
    same = torch("same", "9.8.7+cu130", "a" * 40)
    (same / "lib" / "libtorch_cpu.so").touch()
    finish.link_torch(twin, ["libtorch_cpu.so"], [tmp_path / "other", tmp_path / "same"])
    assert (twin / "lib" / "libtorch_cpu.so").samefile(same / "lib" / "libtorch_cpu.so")


def test_complete_environment_is_used_as_it_is(twins, shell_environment, tmp_path):
    # What the bundle makes: FT_PYTHON names an environment that says of itself that it is complete.
    python = twins("exec", "ft", "python", "-c", "import sys; print(sys._base_executable)").stdout.strip()
    prefix = tmp_path / "ft"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "python").symlink_to(python)
    (prefix / "finished.json").write_text('{"version": "3.13.5", "pgo": true, "environment": true}')
    done = twins(
        "exec",
        "ft",
        "sh",
        "-c",
        "echo $VIRTUAL_ENV",
        FT_PYTHON=str(prefix / "bin" / "python"),
        XDG_CACHE_HOME=str(tmp_path / "cache"),
    )
    assert (done.returncode, done.stdout.strip()) == (0, str(prefix)), done.stderr
    assert not (tmp_path / "cache").exists()


def test_what_it_takes_from_the_checkout_is_there():
    program = CHECKOUT / "native" / "offline" / "finish.py"
    for path in (bundling.RECIPE / "unpack", bundling.RECIPE / "requirements.lock", program):
        assert path.is_file()
    assert (CHECKOUT / finish.RUNTIME / "ftrun" / "info.py").is_file()
