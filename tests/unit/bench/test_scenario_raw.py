"""Raw samples: the right bytes whatever the way, candidates that agree,
a page cache that is cold.
"""

import pickle
import zlib
from dataclasses import replace
from pathlib import Path

import numpy
import pytest
import torch

from ftbench.data import sources
from ftbench.machine import page_cache
from ftbench.measure import gpu
from ftbench.measure.epochs import measure as measure_epochs
from ftbench.plan import sizing
from ftbench.plan.scenario import Task
from ftbench.scenarios import SCENARIOS
from ftbench.scenarios.raw import Records, Shards
from ftrun import environment
from tests.unit.bench.turns import task_of, without_pause

KIB, MIB = 1024, 1024 * 1024


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two shards of 1 MiB and two records, made as a run makes them, in a cache of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FT_BENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        seen = []
        shards = sources.default_shards(
            lambda done, total: seen.append((done, total)), count=2, size=MIB
        )
        records = sources.default_records(lambda done, total: None, count=2)
        assert seen[-1] == (2, 2)
        made = [p.stat().st_mtime_ns for p in shards]
        assert sources.default_shards(lambda done, total: None, count=2, size=MIB) == shards
        assert [p.stat().st_mtime_ns for p in shards] == made
        return {"shards": [str(p) for p in shards], "records": [str(p) for p in records]}


def task(name: str, files: dict, variant: str, case: str) -> Task:
    return task_of(
        name, files[SCENARIOS[name].case(case).source or SCENARIOS[name].source], variant, case
    )


def test_the_files_are_what_no_compressor_makes_smaller(files):
    for path in files["shards"]:
        data = open(path, "rb").read()
        assert len(data) == MIB and len(zlib.compress(data, 6)) > 0.99 * MIB
    assert open(files["shards"][0], "rb").read(64) != open(files["shards"][1], "rb").read(64)
    record = pickle.load(open(files["records"][1], "rb"))
    assert record["image"].shape == sources.RECORD_SHAPE and record["image"].dtype == numpy.int16
    assert (
        record["number"] == 1
        and len(record["peaks"]) == sources.PEAKS
        and len(record["peaks"][0]) == 3
    )
    assert {"shards", "records"} <= set(sources.GENERATED)


@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize("forget", [False, True])
def test_samples_are_the_bytes_of_their_place(files, tensors, forget):
    dataset = Shards(files["shards"], 64 * KIB, tensors, forget)
    assert len(dataset) == 2 * 16
    data = [open(path, "rb").read() for path in files["shards"]]
    for index in (0, 5, 16, 31):
        sample = dataset[index]
        assert isinstance(sample, torch.Tensor if tensors else numpy.ndarray) and tuple(
            sample.shape
        ) == (32, 1024)
        begin = index % 16 * 64 * KIB
        assert numpy.asarray(sample).tobytes() == data[index // 16][begin : begin + 64 * KIB]
    again = pickle.loads(pickle.dumps(dataset))
    assert numpy.array_equal(numpy.asarray(again[7]), numpy.asarray(dataset[7]))


def test_records_are_unpickled(files):
    dataset = pickle.loads(pickle.dumps(Records(files["records"])))
    assert numpy.array_equal(dataset[1], pickle.load(open(files["records"][1], "rb"))["image"])
    assert numpy.stack([dataset[0], dataset[1]]).shape == (2, *sources.RECORD_SHAPE)


def small(name: str, files: dict, variant: str, case: str) -> Task:
    """A case's task with samples of 64 KiB instead of its own, where they are of shards."""
    this = task(name, files, variant, case)
    if (this.scenario.case(case).source or this.scenario.source) != "shards":
        return this
    return replace(
        this,
        parameters={**this.parameters, "sample_bytes": 64 * KIB},
        scenario=replace(
            this.scenario,
            dataset=lambda t: Shards(
                t.paths,
                64 * KIB,
                t.parameters.get("tensors", False),
                bool(t.parameters.get("cold")),
            ),
        ),
    )


@pytest.mark.parametrize(
    "name, case",
    [
        ("raw-size", "64-KiB"),
        ("raw-cache", "warm"),
        ("raw-cache", "cold"),
        *(("raw-transfer", case.name) for case in SCENARIOS["raw-transfer"].plan.cases),
    ],
)
@pytest.mark.slow
def test_threads_and_processes_give_the_same(name, case, files):
    """Measured as a trial does, in shared memory and pickled."""
    found = []
    for variant in ("loader-thread", "loader-process"):
        this = small(name, files, variant, case)
        batch_bytes = this.batch_size * this.parameters["sample_bytes"]
        wanted = sizing.demand(batch_bytes, this.workers, this.prefetch_factor, processes=True).shm
        free = environment.memory()["shm_free"]
        if variant == "loader-process" and not this.parameters.get("pickled") and free < wanted:
            pytest.skip(
                f"/dev/shm has {free >> 20} MiB free, worker processes may need {wanted >> 20} "
                f"MiB here"
            )
        result = without_pause(this.scenario.measure(this))
        if case == "cold" and "unavailable" in result:
            pytest.skip(result["unavailable"])
        assert result["metrics"]["gb_per_s"] == pytest.approx(
            result["metrics"]["throughput"] * this.parameters["sample_bytes"] / 1e9
        )
        assert (result["batches"], result["last_batch"]) == (4, 3)
        found.append((result["first_batch"], result["rows"]))
    assert found[0] == found[1]


@pytest.mark.slow
def test_batches_that_are_arrays_have_the_checksums_of_tensors(files):
    plain, arrays = (
        without_pause(measured)
        for measured in (
            measure_epochs(task("raw-transfer", files, "loader-thread", "unpickled")),
            SCENARIOS["raw-transfer"].measure(
                task("raw-transfer", files, "loader-thread", "unpickled-pickled")
            ),
        )
    )
    assert (plain["first_batch"], plain["rows"]) == (arrays["first_batch"], arrays["rows"])


def test_cold_files_are_on_the_disk_and_stay_there(files):
    # A whole file at once: of a smaller part the kernel keeps the folios that reach beyond it.
    dataset = Shards(files["shards"], MIB, forget=True)
    try:
        page_cache.drop_all(files["shards"])
    except page_cache.NotDropped as error:
        pytest.skip(str(error))
    for index in range(len(dataset)):
        dataset[index]
    assert max(page_cache.resident(path) for path in files["shards"]) < 0.5


def test_where_files_stay_in_memory_cold_says_why(files, monkeypatch):
    monkeypatch.setattr(page_cache, "drop", lambda path: None)
    for path in files["shards"]:
        Path(path).read_bytes()
    result = without_pause(
        SCENARIOS["raw-cache"].measure(task("raw-cache", files, "loader-thread", "cold"))
    )
    assert "FT_BENCH_CACHE" in result.pop("unavailable") and result == {}


def test_a_cold_trial_fails_if_some_files_stay_in_memory(files, monkeypatch):
    """Another one can take its place then. What is measured already stays."""
    monkeypatch.setattr(page_cache, "drop", lambda path: None)
    monkeypatch.setattr(page_cache, "resident", lambda path: float(path == files["shards"][0]))
    with pytest.raises(page_cache.NotDropped, match="^50% of the files"):
        without_pause(
            SCENARIOS["raw-cache"].measure(task("raw-cache", files, "loader-thread", "cold"))
        )


def test_without_a_gpu_pinned_says_why():
    why = SCENARIOS["raw-pinned"].unavailable()
    if torch.cuda.is_available():
        assert why is None
    else:
        assert "GPU" in why or "CUDA" in why


def test_the_consumer_on_a_gpu_notes_what_others_do(files, monkeypatch):
    """With the CPU in the GPU's place."""
    monkeypatch.setattr(gpu, "device", lambda: "cpu")
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    this = small("raw-size", files, "loader-thread", "64-KiB")
    there, here = (without_pause(measure_epochs(this, seen)) for seen in (gpu.OnGpu(), None))
    assert (there["first_batch"], there["rows"]) == (here["first_batch"], here["rows"])


@pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no NVIDIA GPU here: pinned transfer is not measured"
)
@pytest.mark.parametrize("case", ["pinned", "pageable"])
def test_what_arrives_on_the_gpu_is_what_was_read(files, case):
    found = []
    for variant in ("loader-thread", "loader-process"):
        this = small("raw-pinned", files, variant, case)
        result = without_pause(this.scenario.measure(this))
        assert result["metrics"]["gb_per_s"] > 0 and result["batches"] == 4
        found.append((result["first_batch"], result["rows"]))
    on_cpu = without_pause(measure_epochs(this))
    assert found == [(on_cpu["first_batch"], on_cpu["rows"])] * 2
