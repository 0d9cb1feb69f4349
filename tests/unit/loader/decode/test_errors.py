"""Files that cannot be decoded: one clear error that names the file, from any worker."""

import copy
import errno
import gzip
import io
import os
import pickle
import zipfile

import numpy as np
import pytest
from PIL import Image, UnidentifiedImageError

from ftloader import DataLoader, decode
from tests.datasets import Rows


@pytest.fixture
def folder(tmp_path):
    Image.new("RGB", (200, 100), (9, 8, 7)).save(tmp_path / "good.jpg")
    (tmp_path / "truncated.jpg").write_bytes((tmp_path / "good.jpg").read_bytes()[:-40])
    (tmp_path / "text.jpg").write_text("this is no image")
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "folder.jpg").mkdir()
    (tmp_path / "loop.jpg").symlink_to("loop.jpg")
    file = io.BytesIO()
    Image.new("RGB", (64, 64)).save(file, "PNG")
    (tmp_path / "broken.png").write_bytes(file.getvalue()[:60])
    return tmp_path


@pytest.mark.parametrize(
    "read", [decode.read_image, decode.read_pil, lambda path: decode.read_images([path])]
)
@pytest.mark.parametrize(
    ("name", "cause", "words"),
    [
        ("truncated.jpg", OSError, "truncated"),
        ("text.jpg", UnidentifiedImageError, "no format that Pillow knows"),
        ("empty.jpg", UnidentifiedImageError, "it is empty"),
        ("folder.jpg", IsADirectoryError, "Is a directory"),
        ("missing.jpg", FileNotFoundError, "No such file"),
        ("loop.jpg", OSError, "symbolic links"),
        ("broken.png", OSError, "truncated"),
        ("null\0byte.jpg", ValueError, "null byte"),
        ("\udcff.jpg", FileNotFoundError, "No such file"),
    ],
)
def test_the_error_names_the_file_and_the_reason(folder, read, name, cause, words):
    path = os.path.join(folder, name)
    with pytest.raises(decode.DecodeError, match=words) as caught:
        read(path)
    error = caught.value
    assert error.path == path
    assert repr(path) in str(error)
    assert isinstance(error.__cause__, cause)
    assert isinstance(error, OSError)
    assert isinstance(error, ValueError)
    str(error).encode()  # can be printed, whatever the name


def damaged_members(folder):
    """Return {name: function that opens an image in a damaged archive or a closed file}."""
    data = np.random.default_rng(3).bytes(3000)
    with zipfile.ZipFile(folder / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.jpg", data)
    packed = bytearray((folder / "x.zip").read_bytes())
    packed[200] ^= 255
    (folder / "x.zip").write_bytes(packed)
    squeezed = bytearray(gzip.compress(bytes(3000)))
    (folder / "cut.gz").write_bytes(squeezed[:-10])
    squeezed[15] ^= 255
    (folder / "x.gz").write_bytes(squeezed)
    closed = io.BytesIO(data)
    closed.close()
    return {
        "a member of a zip": lambda: zipfile.ZipFile(folder / "x.zip").open("x.jpg"),
        "a cut gzip": lambda: gzip.open(folder / "cut.gz"),
        "a damaged gzip": lambda: gzip.open(folder / "x.gz"),
        "a closed file": lambda: closed,
    }


@pytest.mark.parametrize(
    "name", ["a member of a zip", "a cut gzip", "a damaged gzip", "a closed file"]
)
def test_files_that_fail_while_they_are_read(folder, name):
    """Archives raise errors of their own: BadZipFile, EOFError, zlib.error, ValueError."""
    with pytest.raises(decode.DecodeError) as caught:
        decode.read_image(damaged_members(folder)[name]())
    assert caught.value.__cause__ is not None


def test_of_several_bad_images_the_first_is_named(folder):
    for names in (["truncated.jpg", "missing.jpg"], ["missing.jpg", "truncated.jpg"]):
        with pytest.raises(decode.DecodeError) as caught:
            decode.read_images([os.path.join(folder, name) for name in names])
        assert caught.value.path == os.path.join(folder, names[0])


def test_errno_is_kept(folder):
    with pytest.raises(OSError, match="No such file") as caught:
        decode.read_image(folder / "missing.jpg")
    assert caught.value.errno == errno.ENOENT
    assert "Errno" not in str(caught.value)


def test_bytes_have_no_path():
    with pytest.raises(decode.DecodeError, match="an image of 7 bytes in memory") as caught:
        decode.read_image(b"no jpeg")
    assert caught.value.path is None


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("name", ["missing.jpg", "text.jpg", "truncated.jpg"])
def test_survives_pickling(folder, name, protocol):
    with pytest.raises(decode.DecodeError) as caught:
        decode.read_image(folder / name)
    error = caught.value
    error.add_note("a note")
    for other in (pickle.loads(pickle.dumps(error, protocol)), copy.copy(error)):
        assert type(other) is decode.DecodeError
        assert str(other) == str(error)
        assert other.path == error.path == str(folder / name)
        assert other.errno == error.errno
        assert other.__notes__ == ["a note"]
        assert type(other.__cause__) is type(error.__cause__)
        assert str(other.__cause__) == str(error.__cause__)


def test_a_cause_that_cannot_be_pickled_does_not_stop_it():
    class Local(Exception):
        pass

    error = decode.DecodeError.of("image 'x'", "x", Local("why"))
    other = pickle.loads(pickle.dumps(error))
    assert other.path == "x"
    assert "why" in str(other)
    assert other.__cause__ is None


def test_can_be_made_from_its_message_alone():
    # As torch does with an error from a worker process.
    error = decode.DecodeError("Caught DecodeError in worker")
    assert (str(error), error.path) == ("Caught DecodeError in worker", None)


@pytest.mark.parametrize("name", ["truncated.jpg", "text.jpg", "missing.jpg"])
def test_from_a_worker(folder, worker_method, name):
    paths = [str(folder / "good.jpg")] * 3 + [str(folder / name)]
    files = Rows(4, lambda index: decode.read_image(paths[index]))
    batches = iter(DataLoader(files, batch_size=1, num_workers=2, worker_method=worker_method))
    for _ in range(3):
        assert np.array_equal(next(batches)[0].numpy(), decode.read_image(folder / "good.jpg"))
    with pytest.raises(decode.DecodeError, match=name.replace(".", r"\.")):
        next(batches)


def test_no_memory_is_no_fault_of_the_file(monkeypatch, folder):
    def fail(self):
        raise MemoryError

    # At the opening, where Pillow's public way begins.
    monkeypatch.setattr("PIL.PngImagePlugin.PngImageFile._open", fail)
    with pytest.raises(MemoryError):
        decode.read_image(folder / "broken.png")
