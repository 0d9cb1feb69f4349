"""JPEG decoding with nvImageCodec by threads and by processes: figure 2 of NVIDIA's article.

"Improved Data Loading with Threads", NVIDIA Technical Blog, 2024. Threads share one CUDA context and
have a decoder and a stream each; every process has a context of its own, and hands its batches over
through CUDA's inter-process memory. Without a GPU nvImageCodec's CPU codecs are measured, and every
output says so.
"""

from __future__ import annotations

from ftbench.plan.contest import grid
from ftbench.plan.scenario import Amount, Scenario
from ftbench.scenarios.nvimgcodec import decoding, gpu
from ftbench.scenarios.nvimgcodec.images import dataset
from ftbench.scenarios.pillow import HEIGHT, WIDTH

SCENARIO = Scenario(
    name="nvimgcodec-decode",
    group="nvimgcodec",
    description="JPEG decoding with nvImageCodec, 640x408, into uint8 batches (on the GPU, if there is one)",
    sample="one 640x408 JPEG decoded to RGB uint8",
    sample_bytes=HEIGHT * WIDTH * 3,
    source="images",
    dataset=dataset,
    measure=decoding.measure,
    metrics=("throughput", "worker_setup", "time_to_first_batch", "pss_mib"),
    contest=grid(),
    full=Amount(batch_size=512, batches_per_worker=3),
    quick=Amount(batch_size=64, batches_per_worker=4),
    seconds=560,
    quick_seconds=105,
    question="Decoding with nvImageCodec: threads that share a CUDA context, or processes with one each?",
    unavailable=gpu.without_nvimgcodec,
    note=gpu.backend_note,
)
