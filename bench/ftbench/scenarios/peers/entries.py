"""Who meets in the scenarios of `peers`."""

from __future__ import annotations

from ftbench.plan.contest import Entry

OURS, OURS_GIL = Entry("ft", "loader-thread"), Entry("gil", "loader-thread")
TORCH, NODES, SPDL = Entry("gil", "torch-process"), Entry("ft", "nodes-thread"), Entry("ft", "spdl")
