"""Campaigns of a training job whose ranks are killed: no sample is missing or given twice, as campaign.check() says."""

import re

import pytest

PROGRAM = """
import pathlib, tempfile
from tests.unit.loader.distributed import campaign

for seed in {seeds!r}:
    folder = tempfile.mkdtemp(dir={folder!r})
    model = campaign.campaign(folder, seed)
    campaign.check(model)
    print("seed", f"{{seed}}: steps in", *sorted({{ranks for _, ranks, _, _ in model}}, reverse=True), "ranks")
"""


def run(run_program, folder, seeds):
    status, out, err = run_program(PROGRAM.format(seeds=seeds, folder=str(folder)))
    assert status == 0, out + err
    lines = re.findall(r"^seed (\d+): steps in ([\d ]+) ranks$", out, re.M)
    assert [int(seed) for seed, _ in lines] == list(seeds)
    return "".join(ranks for _, ranks in lines)


@pytest.mark.slow
def test_some_campaigns(run_program, tmp_path):
    # A step that no checkpoint holds is made again, perhaps in another number of ranks.
    assert set("4231") <= set(run(run_program, tmp_path, range(2)))


@pytest.mark.long(reason="200 campaigns")
@pytest.mark.parametrize("first", range(0, 200, 20))
def test_many_campaigns(run_program, tmp_path, first):
    run(run_program, tmp_path, range(first, first + 20))
