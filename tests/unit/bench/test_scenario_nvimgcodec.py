"""nvImageCodec: its pixels, both decoders in one chart, a real run; on a GPU where there is one."""

from dataclasses import replace

import numpy
import pytest
import torch
from PIL import Image

from ftbench.measure import checksums, gpu
from ftbench.plan.candidates import CONFIGS
from ftbench.plan.scenario import TrialError
from ftbench.scenarios import SCENARIOS, members, nvimgcodec
from ftbench.scenarios.pillow import HEIGHT, WIDTH, DecodedImages, PillowDataset
from tests.unit.bench.turns import task_of, without_pause

pytest.importorskip(
    "nvidia.nvimgcodec", reason="nvImageCodec is not installed; it is in docker/requirements.lock"
)
on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
off_gpu = pytest.mark.skipif(
    torch.cuda.is_available(), reason="is about machines without a GPU; this one has one"
)


def test_pixels_are_pillows(paths, tmp_path):
    other = tmp_path / "other.png"
    with Image.open(paths[0]) as image:
        image.resize((333, 222)).save(other)
    ours, pillows = (
        DecodedImages([*paths, str(other)], "nvimgcodec"),
        PillowDataset([*paths, str(other)]),
    )
    assert len(ours) == len(pillows) == 7
    for index in range(7):
        assert numpy.array_equal(ours[index], pillows[index])


def test_images_of_another_size_are_resized_by_torch_as_by_pillow(paths):
    """What a GPU does with them, done by the CPU."""
    with Image.open(paths[0]) as file:
        for size in ((333, 222), (1000, 700)):
            image = file.resize(size)
            ours = nvimgcodec._resized(torch.from_numpy(numpy.array(image)))
            pillows = numpy.asarray(image.resize((WIDTH, HEIGHT), Image.Resampling.BILINEAR))
            assert ours.shape == (HEIGHT, WIDTH, 3) and ours.dtype == torch.uint8
            assert numpy.abs(ours.numpy().astype(int) - pillows).mean() < 1


def test_another_decoders_rows_are_held_against_pillows(paths, monkeypatch):
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(gpu, "used_mib", lambda: 0.0)
    seen = nvimgcodec.PicturesOnGpu(task_of("combined", paths, case="nvimgcodec"))
    images = PillowDataset(paths)
    # The second batch, decoded a little differently.
    batch = numpy.stack([images[index] for index in (3, 4, 5)])
    rows = batch[:, :: checksums.CHECKED_ROWS]
    near = numpy.clip(
        rows.astype(int) + numpy.random.default_rng(1).integers(-4, 5, rows.shape), 0, 255
    )
    assert seen.checksum(1, near.astype(numpy.uint8)) == checksums.part(torch.from_numpy(batch))
    # six images, so batch 3 is batch 1 again
    assert seen.checksum(3, rows) == seen.checksum(1, rows)
    with pytest.raises(TrialError, match="image 3 differs from Pillow's"):
        seen.checksum(1, rows[::-1])


def test_combined_compares_the_decoders():
    plan = SCENARIOS["combined"].plan
    candidates = [c for _, c in plan.ranked(CONFIGS, [1, 2], quick=False)]
    assert {c.case for c in candidates} == {"pillow", "nvimgcodec"}
    across = [
        p
        for p in plan.pairs(candidates)
        if p.numerator.partition("@")[0] == p.denominator.partition("@")[0]
    ]
    assert (across[0].numerator, across[0].kind) == ("ft/loader-thread/2@nvimgcodec", "headline")
    assert across[1].kind == "headline" and {p.kind for p in across[2:]} == {"case"}
    assert len(across) == 3 * 2 * 2
    for pair in across:
        assert pair.numerator.replace("@nvimgcodec", "@pillow") == pair.denominator
    assert [s.name for s in members("nvimgcodec")] == ["nvimgcodec-decode", "nvimgcodec-memory"]


@off_gpu
def test_without_a_gpu_the_reason_is_told():
    assert gpu.device() is None
    why = nvimgcodec.without_gpu()
    assert "GPU" in why or "nvidia-smi" in why
    assert (
        nvimgcodec.backend_note().startswith("nvImageCodec's CPU backend")
        and why in nvimgcodec.backend_note()
    )
    assert SCENARIOS["nvimgcodec-memory"].unavailable() == why
    assert SCENARIOS["nvimgcodec-decode"].unavailable() is None


@off_gpu
@pytest.mark.slow
def test_both_decoders_give_the_same_bits_to_threads_and_processes(paths):
    found = [
        without_pause(nvimgcodec.measure(task_of("combined", paths, variant, case)))
        for case in ("pillow", "nvimgcodec")
        for variant in ("loader-thread", "loader-process")
    ]
    assert len({(f["first_batch"], tuple(f["rows"])) for f in found}) == 1
    for each in found:
        assert (each["samples"], each["batches"], each["last_batch"]) == (12, 4, 3)
        assert set(each["metrics"]) >= set(SCENARIOS["combined"].metrics)
        assert min(each["metrics"].values()) > 0


@off_gpu
def test_pictures_on_a_gpu_are_held_against_pillows(paths, monkeypatch):
    """With the CPU in the GPU's place."""
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(gpu, "used_mib", iter(range(100, 200)).__next__)
    task = task_of("combined", paths, case="nvimgcodec")
    plain = without_pause(nvimgcodec.measure(task))
    dataset = task.dataset()
    monkeypatch.setattr(gpu, "device", lambda: "cpu")
    there = without_pause(
        nvimgcodec.measure(
            replace(task, scenario=replace(task.scenario, dataset=lambda _: dataset))
        )
    )
    assert there["rows"] == plain["rows"] and there["first_batch"] == plain["rows"][0]
    # The first reading is of the consumer alone, then one for each batch of the warm-up.
    assert there["metrics"]["gpu_mib_per_worker"] == task.warmup_batches / task.workers


@off_gpu
@pytest.mark.slow
def test_a_run_says_what_it_measured_and_what_it_could_not(special, special_run, twin):
    entry = special("nvimgcodec-decode")
    assert all(t.gil_enabled == (twin == "gil") for t in entry.rounds[0].trials)
    # Labelled in every output, and what needs a GPU is named with the reason.
    page, printed = (special_run.directory / "report.html").read_text(), special_run.printed
    for output in (entry.note, " ".join(printed.split()), page.replace("&#39;", "'")):
        assert "nvImageCodec's CPU backend" in output
    (left_out,) = [each for each in special_run.record.skipped if each.what == "nvimgcodec-memory"]
    assert left_out.why == gpu.why_none() and "nvimgcodec-memory" in printed


TRIAL = {"workers": 2, "batch_size": 3, "warmup_batches": 2, "batches": 4}


@pytest.mark.slow
@on_gpu
def test_threads_and_processes_on_the_gpu(run_trial, paths):
    found = {
        variant: run_trial("nvimgcodec-memory", variant, paths=paths, **TRIAL)
        for variant in ("loader-thread", "loader-process")
    }
    threads, processes = found["loader-thread"], found["loader-process"]
    assert (threads["first_batch"], threads["rows"]) == (
        processes["first_batch"],
        processes["rows"],
    )
    for result in found.values():
        assert result["samples"] == 4 * 3 * nvimgcodec.STRETCH_ON_GPU and result["batches"] == 4
        assert torch.cuda.get_device_name(0) in result["note"]
    # A CUDA context takes hundreds of MiB, which each process has and threads share.
    assert processes["metrics"]["gpu_mib_per_worker"] > threads["metrics"]["gpu_mib_per_worker"]


@pytest.mark.slow
@on_gpu
def test_both_decoders_end_on_the_gpu(run_trial, paths):
    found = [
        run_trial("combined", variant, case, paths=paths, **TRIAL)
        for case in ("pillow", "nvimgcodec")
        for variant in ("loader-thread", "loader-process")
    ]
    assert len({(f["first_batch"], tuple(f["rows"])) for f in found}) == 1
