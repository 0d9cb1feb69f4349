"""JPEG decoding with nvImageCodec by threads and by processes: figure 2 of NVIDIA's article.

"Improved Data Loading with Threads", NVIDIA Technical Blog, 2024. Threads share one CUDA context and
have a decoder and a stream each; every process has a context of its own, and hands its batches over
through CUDA's inter-process memory. Without a GPU nvImageCodec's CPU codecs are measured, and every
output says so.
"""

from __future__ import annotations

from typing import Any

from ftbench.plan.contest import grid
from ftbench.plan.scenario import Amount, Scenario
from ftbench.scenarios.nvimgcodec import decoding, gpu
from ftbench.scenarios.nvimgcodec.images import dataset
from ftbench.scenarios.pillow import of_images


def _scenario(**fields: Any) -> Scenario:
    return of_images(
        group="nvimgcodec", dataset=dataset, measure=decoding.measure, contest=grid(), note=gpu.backend_note, **fields
    )


SCENARIOS = (
    _scenario(
        name="nvimgcodec-decode",
        description="JPEG decoding with nvImageCodec, 640x408, into uint8 batches (on the GPU, if there is one)",
        metrics=("throughput", "worker_setup", "time_to_first_batch", "pss_mib"),
        full=Amount(batch_size=512, batches_per_worker=3),
        quick=Amount(batch_size=64, batches_per_worker=4),
        seconds=560,
        quick_seconds=105,
        question="Decoding with nvImageCodec: threads that share a CUDA context, or processes with one each?",
        unavailable=gpu.without_nvimgcodec,
    ),
    # What a worker takes of the GPU's memory: a decoder and a stream, or a CUDA context besides.
    _scenario(
        name="nvimgcodec-memory",
        description="GPU memory that a decoding worker adds, its batches under way included (needs a GPU)",
        metrics=("gpu_mib_per_worker", "worker_setup"),
        # Small batches, so that what a worker itself takes is not lost among its pixels.
        full=Amount(batch_size=32, batches_per_worker=4),
        quick=Amount(batch_size=32, batches_per_worker=2),
        seconds=300,
        quick_seconds=90,
        question="How much GPU memory does one more worker take: a thread's decoder, or a process's CUDA context?",
        unavailable=gpu.without_gpu,
    ),
)
