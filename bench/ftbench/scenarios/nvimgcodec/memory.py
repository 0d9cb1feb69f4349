"""What a worker takes of the GPU's memory: a decoder and a stream, or a CUDA context besides."""

from __future__ import annotations

from ftbench.plan.contest import grid
from ftbench.plan.scenario import Amount, Scenario
from ftbench.scenarios.nvimgcodec import decoding, gpu
from ftbench.scenarios.nvimgcodec.images import dataset
from ftbench.scenarios.pillow import HEIGHT, WIDTH

SCENARIO = Scenario(
    name="nvimgcodec-memory",
    group="nvimgcodec",
    description="GPU memory that a decoding worker adds, its batches under way included (needs a GPU)",
    sample="one 640x408 JPEG decoded to RGB uint8",
    sample_bytes=HEIGHT * WIDTH * 3,
    source="images",
    dataset=dataset,
    measure=decoding.measure,
    metrics=("gpu_mib_per_worker", "worker_setup"),
    contest=grid(),
    # Small batches, so that what a worker itself takes is not lost among its pixels.
    full=Amount(batch_size=32, batches_per_worker=4),
    quick=Amount(batch_size=32, batches_per_worker=2),
    seconds=300,
    quick_seconds=90,
    question="How much GPU memory does one more worker take: a thread's decoder, or a process's CUDA context?",
    unavailable=gpu.without_gpu,
    note=gpu.backend_note,
)
