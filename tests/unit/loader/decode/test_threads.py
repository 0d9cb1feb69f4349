"""Decoding in many threads at once: no pixels are mixed up, and nothing stays behind."""

import contextlib
import os
import random
import runpy
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ftloader import decode
from ftloader.decode import pillow
from tests.encoded_pictures import encoded, picture, plain
from tests.in_threads import in_threads

THREADS = 12


@pytest.fixture(scope="module")
def pictures():
    """Return encoded images of many sizes, modes and formats, with their pixels."""
    choice = random.Random(0)
    kinds = ["JPEG", "PNG", "JPEG", "WEBP", "JPEG", "TIFF"]
    found = []
    for number in range(36):
        size = choice.randint(1, 199), choice.randint(1, 199)
        image = picture(*size, ["RGB", "RGB", "L"][number % 3], number, sharp=False)
        data = encoded(image, kinds[number % 6])
        found.append((data, plain(data)))
    return found


@pytest.mark.parametrize("backend", ["pillow", "nvimgcodec"])
@pytest.mark.slow
def test_pixels_of_many_threads(pictures, backend):
    if backend == "nvimgcodec":
        pytest.importorskip("nvidia.nvimgcodec")

    def read(number):
        for step in range(60):
            data, expected = pictures[(number * 7 + step) % len(pictures)]
            array = decode.read_image(data, backend=backend)
            assert np.array_equal(array, expected)

    in_threads(read, range(THREADS))


@pytest.mark.slow
def test_errors_and_pixels_at_once(pictures):
    jpegs = [(data, pixels) for data, pixels in pictures if data[:2] == b"\xff\xd8"]

    def read(number):
        for step in range(60):
            data, expected = jpegs[(number + step) % len(jpegs)]
            if (number + step) % 3:
                assert np.array_equal(decode.read_image(data), expected)
            else:
                with pytest.raises(decode.DecodeError):
                    decode.read_image(data[:-30])

    in_threads(read, range(THREADS))


def test_pillows_plugins_are_loaded_with_the_module_and_not_by_a_worker(monkeypatch):
    loaded = []
    monkeypatch.setattr(Image, "init", lambda: loaded.append(threading.current_thread()))
    runpy.run_path(pillow.__file__)
    assert loaded == [threading.current_thread()]


@pytest.mark.slow
def test_the_first_use_of_pillow_in_many_threads_at_once(run_program):
    """Pillow fills its registry of formats on demand; here twelve threads make the demand."""
    status, _, errors = run_program(
        """
        import threading
        from ftloader import decode

        # Written by hand, since saving an image would load all plugins.
        XBM = b"#define x_width 2\\n#define x_height 1\\nstatic char x_bits[] = {\\n0x01\\n};\\n"
        start = threading.Barrier(12)
        pixels, errors = [], []

        def read(number):
            start.wait()
            try:
                if number % 2:
                    pixels.append(decode.read_image(XBM, "L").tolist())
                else:
                    decode.read_image(b"unknown to all plugins")
            except decode.DecodeError as error:
                errors.append(str(error))

        threads = [threading.Thread(target=read, args=(n,)) for n in range(12)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert pixels == [[[255, 0]]] * 6, pixels
        assert len(errors) == 6 and all("no format" in error for error in errors), errors
        """
    )
    assert status == 0, errors


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts files in /proc/self/fd")
def open_in(folder):
    """Return the names of the files of *folder* that this process has open."""
    found = []
    for each in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of listdir
            where = Path(os.readlink(f"/proc/self/fd/{each}"))
            found += [where.name] * (where.parent == folder)
    return found


def test_no_file_is_left_open(tmp_path, pictures):
    path = tmp_path / "x.jpg"
    path.write_bytes(pictures[0][0])
    (tmp_path / "bad.jpg").write_bytes(pictures[0][0][:100])
    with open(path):
        assert open_in(tmp_path) == ["x.jpg"]
    for _ in range(20):
        decode.read_image(path)
        decode.read_pil(path)
        with pytest.raises(decode.DecodeError):
            decode.read_image(tmp_path / "bad.jpg")
        with pytest.raises(decode.DecodeError):
            decode.read_pil(tmp_path / "bad.jpg")
    assert not open_in(tmp_path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("backend", ["pillow", "nvimgcodec"])
@pytest.mark.slow
def test_a_forked_child_decodes(run_program, backend):
    """The child has a copy of the parent's decoders; those of other threads are gone."""
    if backend == "nvimgcodec":
        pytest.importorskip("nvidia.nvimgcodec")
    status, _, errors = run_program(
        f"""
        import io, os, sys, threading
        from PIL import Image
        from ftloader import decode

        file = io.BytesIO()
        Image.new("RGB", (64, 48), (1, 2, 3)).save(file, "JPEG")

        def read():
            return decode.read_image(file.getvalue(), backend={backend!r})

        expected = read()
        used, leave = threading.Event(), threading.Event()

        def other():
            read()
            used.set()
            leave.wait()

        thread = threading.Thread(target=other)
        thread.start()
        used.wait()
        pid = os.fork()
        if pid == 0:
            ok = (read() == expected).all()
            late = []
            in_child = threading.Thread(target=lambda: late.append(read()))
            in_child.start()
            in_child.join()
            sys.exit(0 if ok and (late[0] == expected).all() else 3)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        leave.set()
        thread.join()
        sys.exit(status)
        """
    )
    assert status == 0, errors
