"""The programs of examples/, run as a user runs them."""

import os
import re
import sys

import pytest
from PIL import Image

from ftrun.errors import OverlayError
from ftrun.inline_metadata import dependencies
from ftrun.interruption import Interruption
from tests.checkout import CHECKOUT, importable
from tests.libraries.run import CACHE, install_for
from tests.programs import completed

pytestmark = pytest.mark.slow

EXAMPLES = CHECKOUT / "examples"
PROGRAMS = sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.fixture
def run(tmp_path):
    """Return ``run(name, *launcher, arguments=())``, which runs a program
    with the packages it names and returns its output.

    A test skips itself where these packages cannot be installed.
    """

    def run(name, *launcher, arguments=()):
        packages = tmp_path / "site-packages"
        if dependencies((EXAMPLES / name).read_text()):
            try:
                with Interruption() as interruption:
                    install_for(EXAMPLES / name, packages, CACHE, interruption)
            except OverlayError as error:
                pytest.skip(f"what {name} needs cannot be installed: {error}")
        environment = {
            **os.environ,
            "PYTHONPATH": importable(packages),
            "TMPDIR": str(tmp_path),
            "OMP_NUM_THREADS": "1",
        }
        done = completed(
            [sys.executable, *launcher, EXAMPLES / name, *arguments],
            0,
            cwd=tmp_path,
            env=environment,
            timeout=1200,
        )
        assert "Traceback" not in done.stderr
        return done.stdout

    return run


def test_image_classifier(run, tmp_path):
    shares = re.findall(r"^epoch \d: (\d+)% right, [\d.]+ s$", run("image_classifier.py"), re.M)
    assert len(shares) == 4
    assert int(shares[-1]) > 90
    assert not list(tmp_path.rglob("*.jpg"))


def test_iterable_dataset(run):
    assert run("iterable_dataset.py").splitlines() == [
        "num_workers=0: each of 600 samples once; worker 0: files [0, 1, 2, 3, 4, 5]",
        "num_workers=1: each of 600 samples once; worker 0: files [0, 1, 2, 3, 4, 5]",
        (
            "num_workers=2: each of 600 samples once; worker 0: files [0, 2, 4]; worker 1: files "
            "[1, 3, 5]"
        ),
    ]


def test_random_per_sample(run):
    *same, verdict, other = run("random_per_sample.py").splitlines()
    checksums = {line.partition(": ")[2] for line in same}
    assert len(same) == 4
    assert len(checksums) == 1
    assert verdict == "the same augmentations every time"
    first, second = re.findall(r"[0-9a-f]{12}", *checksums)
    assert first != second
    assert first not in other


def test_resume_after_kill(run):
    assert run("resume_after_kill.py").splitlines() == [
        "killed after 13 batches, 104 samples",
        "the child ended with exit status -9",
        "resumed with num_workers=1: the checkpoint's model has seen 80 samples",
        "the epoch is complete: 200 samples, each of the 200 once: True",
        "the child ended with exit status 0",
    ]


def test_two_ranks(run):
    # --standalone: a free port, rather than torchrun's usual one.
    printed = run(
        "two_ranks.py", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"
    )
    epochs = re.findall(
        r"^epoch \d: loss ([\d.]+); rank 0: 256, rank 1: 256; each sample once: True$",
        printed,
        re.M,
    )
    assert len(epochs) == 5
    assert float(epochs[-1]) < float(epochs[0])


def test_elastic_ranks(run):
    # All ranks print to one pipe, and gloo prints its lines in pieces: they may stand before ours
    # on a line.
    ours = r"\d ranks begin in .*|rank \d is killed .*|epoch \d: .*|torchrun ended .*"
    assert re.findall(ours, run("elastic_ranks.py")) == [
        "4 ranks begin in epoch 0, after 0 samples of it",
        "rank 3 is killed after step 11, 352 samples",
        "torchrun ended with exit status 1",
        "2 ranks begin in epoch 0, after 256 samples of it",
        *(f"epoch {epoch}: 512 samples, each of the 512 once: True" for epoch in range(2)),
        "torchrun ended with exit status 0",
    ]


def check_epochs(printed):
    """Check that each epoch has all samples of the previous one, and those that came since."""
    epochs = re.findall(r"^epoch \d: (\d+) samples, \d+ MB/s; (\d+) seen by now$", printed, re.M)
    sizes = [int(size) for size, _ in epochs]
    assert len(epochs) == 6 and sizes == sorted(sizes) == [int(seen) for _, seen in epochs]
    assert 16 <= sizes[0] and sizes[-1] <= 400


def test_growing_cache(run):
    check_epochs(run("growing_cache.py"))


def test_growing_cache_is_smaller_than_the_source(run):
    printed = run("growing_cache.py", arguments=("120", "30", "40"))
    sizes, seen = zip(*re.findall(r"^epoch \d+: (\d+) .*; (\d+) seen by now$", printed, re.M))
    assert len(sizes) == 30 and max(map(int, sizes)) < 40 < int(seen[-1]) <= 120


def test_tfrecords_and_processes(run):
    check_epochs(run("tfrecords_and_processes.py"))


def test_audit_dataset(run, tmp_path):
    broken, mended = run("audit_dataset.py").split("=== mended: ok")
    assert broken.startswith("=== broken: NOT SAFE")
    assert "1. PROBLEM: the position of a file" in broken
    assert "os.pread" in broken
    assert "verdict: nothing was found" in mended and "PROBLEM" not in mended
    assert not list(tmp_path.glob("records-*"))


def test_how_many_workers(run):
    printed = run("how_many_workers.py")
    rates = dict(re.findall(r'^num_workers="?(\w+)"?: (\d+) samples/s', printed, re.M))
    assert [*rates] == ["1", "2", "4", "8", "16", "32", "auto"]
    assert int(rates["8"]) > int(rates["1"]), "samples that wait gain from more threads"


def test_loading_time(run, tmp_path):
    lines = run("loading_time.py").splitlines()
    times = [
        float(re.fullmatch(r"num_workers=\d: ([\d.]+) s \+- [\d.]+ s", line)[1]) for line in lines
    ]
    assert len(times) == 3 and all(times)
    with Image.open(tmp_path / "loading_time.png") as picture:
        assert picture.format == "PNG" and len(picture.convert("RGB").getcolors(1 << 24)) > 2


def test_threads_or_processes(run):
    rates = re.findall(
        r'^worker_method="(\w+)": \d+ images/s$', run("threads_or_processes.py"), re.M
    )
    assert rates == ["thread", "process"]


def test_progress_line(run):
    first, limit, change = run("progress_line.py").splitlines()
    assert first.startswith("20 batches, 320 samples in")
    assert limit.startswith("limit: the dataset, which waits") and change == "change: num_workers=4"


def test_progress_line_with_another_number_of_workers(run):
    assert "s) by 4 threads; " in run("progress_line.py", arguments=("4",))


def test_prometheus_metrics(run):
    metrics = dict(line.split() for line in run("prometheus_metrics.py").splitlines())
    assert (metrics["loader_batches_total"], metrics["loader_samples_total"]) == ("50.0", "400.0")
    waited, seconds = (
        float(metrics["loader_waited_seconds_total"]),
        float(metrics["loader_loop_seconds_total"]),
    )
    assert 0 < waited < seconds
    assert float(metrics["loader_loading_seconds_total"]) > 0.8
    assert metrics["loader_bytes_total"] == "102400.0"


def test_lightning_callback(run):
    printed = run("lightning_callback.py")
    assert re.findall(r"^epoch (\d): 16 batches, 128 samples in", printed, re.M) == ["0", "1"]
    assert len(re.findall("^limit: ", printed, re.M)) == 2  # on a busy machine, the CPUs
    logged = int(re.search(r"^logged: data_wait=(\d+)%$", printed, re.M)[1])
    last = int(re.findall(r"the loop waited for data (\d+)% of the time", printed)[-1])
    assert 0 < logged <= 100 and abs(logged - last) <= 5


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_example_has_its_test_and_its_line(name):
    assert f"test_{name.removesuffix('.py')}" in globals(), f"examples/{name} has no test here"
    assert f"[{name}]({name})" in (EXAMPLES / "README.md").read_text(), (
        f"examples/README.md does not name {name}"
    )
