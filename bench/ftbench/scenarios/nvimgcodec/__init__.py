"""The group `nvimgcodec`: NVIDIA's decoder, on a GPU where there is one."""

from __future__ import annotations

from ftbench.scenarios.nvimgcodec import decode

NAME = "nvimgcodec"
DESCRIPTION = "decoding with nvImageCodec: per-thread decoders in one CUDA context, or a context a process"

SCENARIOS = decode.SCENARIOS
