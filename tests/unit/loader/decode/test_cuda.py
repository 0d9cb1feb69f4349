"""Decoding on a GPU where there is one, and clear errors where there is none."""

import numpy as np
import pytest
import torch

from ftloader import decode
from tests.encoded_pictures import encoded, picture, plain
from tests.in_threads import in_threads

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


def file(seed, size=(640, 408), kind="JPEG", mode="RGB"):
    options = {"subsampling": 0} if kind == "JPEG" else {}
    return encoded(picture(*size, mode, seed, sharp=False), kind, **options)


def assert_near(tensor, data):
    """Allow for another inverse DCT and colour conversion: a few steps of 255, rarely more."""
    difference = np.abs(tensor.cpu().numpy().astype(int) - plain(data))
    assert difference.mean() < 1
    assert difference.max() <= 12


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
@pytest.mark.parametrize("device", ["cuda", "cuda:3", torch.device("cuda")])
def test_no_gpu_names_the_argument(device):
    with pytest.raises(decode.BackendUnavailable, match=r"device='cuda.*pass device='cpu'"):
        decode.read_image(file(0), device=device)
    with pytest.raises(decode.BackendUnavailable, match="pass device='cpu'"):
        decode.read_images(["/missing.jpg"], device=device)  # before any file is read


def test_arguments_are_checked_before_the_gpu():
    with pytest.raises(ValueError, match="backend='pillow' for others"):
        decode.read_image(file(0), "RGBA", device="cuda")
    with pytest.raises(ValueError, match="cpu_threads must be at least 1"):
        decode.read_images([file(0)], device="cuda", cpu_threads=0)


def test_no_nvimgcodec_names_the_package(monkeypatch):
    import builtins

    from ftloader.decode import nvimgcodec

    real = builtins.__import__

    def refuse(name, *arguments, **keywords):
        if name == "nvidia":
            raise ImportError("No module named 'nvidia'")
        return real(name, *arguments, **keywords)

    nvimgcodec.library.cache_clear()
    monkeypatch.setattr(builtins, "__import__", refuse)
    try:
        with pytest.raises(
            decode.BackendUnavailable,
            match=r"install nvidia-nvimgcodec-cu12\[all\].*backend='pillow'",
        ):
            nvimgcodec.library()
    finally:
        nvimgcodec.library.cache_clear()


@gpu
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_an_image_on_the_gpu(kind, mode):
    data = file(1, kind=kind, mode=mode)
    tensor = decode.read_image(data, device="cuda:0")
    assert (tensor.device, tensor.dtype, tensor.shape) == (
        torch.device("cuda:0"),
        torch.uint8,
        (408, 640, 3),
    )
    assert tensor.is_contiguous()
    assert_near(tensor, data)
    assert decode.read_image(data, "L", device="cuda:0").shape == (408, 640)


@gpu
@pytest.mark.parametrize("cpu_threads", [1, 4])
def test_a_batch_on_the_gpu(cpu_threads):
    files = [file(number, size=(100 + 30 * number, 80)) for number in range(20)]
    for data, tensor in zip(
        files, decode.read_images(files, device="cuda:0", cpu_threads=cpu_threads), strict=True
    ):
        assert_near(tensor, data)


@gpu
def test_out_on_the_gpu():
    files = [file(number) for number in range(4)]
    out = torch.zeros((4, 408, 640, 3), dtype=torch.uint8, device="cuda:0")
    tensors = decode.read_images(files, device="cuda:0", out=out)
    for number, data in enumerate(files):
        assert tensors[number].data_ptr() == out[number].data_ptr()
        assert_near(out[number], data)
    with pytest.raises(ValueError, match="out has shape"):
        decode.read_images(files, device="cuda:0", out=out[:, :100])


@gpu
def test_errors_on_the_gpu(tmp_path):
    path = tmp_path / "bad.jpg"
    path.write_bytes(file(0)[:200])
    with pytest.raises(decode.DecodeError, match=r"bad\.jpg"):
        decode.read_images([file(1), path], device="cuda:0")
    with pytest.raises(decode.BackendUnavailable, match="is not there"):
        decode.read_image(file(1), device="cuda:99")


@gpu
def test_many_threads_on_the_gpu():
    """Each thread reads its tensors on its own stream, while others decode and free theirs."""
    files = [file(number) for number in range(6)]
    expected = [decode.read_image(data, device="cuda:0").cpu() for data in files]

    def read(thread):
        with torch.cuda.stream(torch.cuda.Stream(0)):
            for step in range(20):
                order = [(thread + step + n) % 6 for n in range(6)]
                tensors = decode.read_images([files[n] for n in order], device="cuda:0")
                for number, tensor in zip(order, tensors, strict=True):
                    assert torch.equal(tensor.cpu(), expected[number]), number

    in_threads(read, range(6))


@gpu
def test_under_the_loader_on_the_gpu():
    from ftloader import DataLoader

    class Files:
        files = [file(number) for number in range(32)]

        def __len__(self):
            return len(self.files)

        def __getitem__(self, index):
            raise AssertionError("the batched way is there")

        def __getitems__(self, indices):
            return decode.read_images([self.files[index] for index in indices], device="cuda:0")

    batches = list(
        DataLoader(
            Files(), batch_size=8, num_workers=2, worker_method="thread", collate_fn=torch.stack
        )
    )
    assert [batch.shape for batch in batches] == [(8, 408, 640, 3)] * 4
    for number, tensor in enumerate(torch.cat(batches)):
        assert_near(tensor, Files.files[number])
