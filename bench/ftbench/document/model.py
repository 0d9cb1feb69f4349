"""The form of results.json: every field of it, with its type, its bounds and what it means.

A class below stands for an object, its annotations for the object's keys: the type, then in Annotated what JSON
schema says further of it (a dict) and what it means (a text). No others are allowed, and all are required but those
marked OPTIONAL; `from_` stands for `from`. The classes are only read, by ftbench.document.schema, never instantiated:
documents are dicts. Parts that a dataclass writes are described where it is defined.
"""

from typing import Annotated as A
from typing import Any, Literal

from ftbench.machine.disturbance import State
from ftbench.plan.candidates import CONFIGS, Target
from ftbench.plan.scenario import DISTRIBUTION_LIMIT
from ftbench.stats.statistics import MET, MISSED, UNCLEAR, Ratio

SCHEMA_VERSION = 6
"""Raised when a reader of the old form would misread the new one."""

OPTIONAL: dict[str, Any] = {}
"""The mark of a key that may be missing."""

Positive = A[float, {"exclusiveMinimum": 0}]
NotNegative = A[float, {"minimum": 0}]
Part = A[float, {"minimum": 0, "maximum": 1}]
Count = A[int, {"minimum": 0}]
Whole = A[int, {"minimum": 1}]
Config = A[str, {"enum": [*CONFIGS]}]
Name = A[str, {"pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$"}]
Metric = A[Name, "a metric's name (bench/ftbench/plan/metrics.py, which has its unit)"]
Checksum = A[str, {"pattern": "^[0-9a-f]{64}$"}]
Series = A[list[float], {"minItems": 1, "maxItems": DISTRIBUTION_LIMIT}]
Status = Literal["complete", "incomplete"]
Outcome = Literal["passed", "failed", "crashed", "hung"]


class Options:
    """What the command line asked for."""

    scenarios: A[list[str], "names of the scenarios"]
    quick: A[bool, "--quick"]
    out: A[str, "--out, the directory of all runs"]
    data: A[str | None, "--data, the user's own images; null for generated ones"]
    rounds: A[int | None, "--rounds, null for as many as fit"]
    budget: A[float, "seconds for the whole run"]
    workers: A[list[Whole] | None, "--workers, null for each scenario's own"]
    batch_size: A[int | None, "--batch-size, null for each scenario's own"]
    configs: A[list[Config], "configurations that were measured"]
    twins: A[dict[str, str], "endpoint (a Python, or unix:PATH) by twin"]
    stress: A[bool, OPTIONAL, "whether the thread-safety suite was asked for; absent before it was part of runs"]
    stress_minutes: A[Positive | None, OPTIONAL, "--stress-minutes, null for a moment for each scenario"]
    precision: A[Positive, "--precision as a part of 1"]
    requirements: A[list[str], "packages that were installed for the user's own dataset"]
    cache: A[str | None, "where downloads are kept"]
    dataset: A[str | None, "--dataset, the user's own; null for the scenarios'"]
    collate_fn: A[str | None, "--collate-fn"]
    folders: A[dict[Literal["CODE", "DATA"], str], OPTIONAL, "what /code and /data of the containers are in the host"]


class Interpreter:
    """A twin's Python (sys, sysconfig, platform)."""

    version: A[str, '"3.13.5"']
    implementation: A[str, '"CPython"']
    executable: A[str, "path"]
    twin: A[Literal["ft", "gil"], "which twin it is"]
    free_threaded: A[bool, "built with --disable-gil"]
    gil_enabled: A[bool, "whether its GIL was on when it was asked"]
    python_gil_variable: A[str | None, "PYTHON_GIL of its environment"]
    pgo: A[bool, "built with --enable-optimizations"]
    lto: A[bool, "built with --with-lto"]
    build: A[str, "the same in words"]
    config_args: A[str, "arguments of configure"]
    cflags: A[str, "compiler flags"]
    compiler: A[str, "name and version"]
    build_date: A[str, "as the interpreter has it"]
    soabi: A[str | None, "tag of its extension modules"]


class Cpu:
    """A twin's processor and its share of it."""

    model: A[str, "name"]
    machine: A[str, "architecture"]
    count: A[Whole, "CPUs of the machine"]
    affinity: A[Whole, "CPUs that its processes may use"]
    quota: A[float | None, "CPUs that its control group leaves it, null for all"]
    usable: A[Whole, "CPUs that affinity and quota leave"]


class Memory:
    """Bytes of memory when the run began."""

    total: A[Count, "of the machine"]
    limit: A[int | None, "of its control group, null for none"]
    available: A[Count, "free for it"]
    shm_total: A[Count, "size of /dev/shm"]
    shm_free: A[Count, "free in /dev/shm"]


class System:
    """A twin's operating system."""

    name: A[str, "distribution"]
    kernel: A[str, "release of Linux"]
    container: A[str | None, "kind of container, null for none"]


class Gpu:
    """NVIDIA GPUs that a twin sees."""

    devices: A[list[str], "name and memory of each"]
    driver: A[str | None, "version, null without one"]
    reason: A[str | None, "why there is none, null if there is"]


class Twin:
    endpoint: A[str, "path of its Python, or unix:PATH of its trial server"]
    interpreter: Interpreter
    packages: A[dict[str, str], "version by normalised name, all that are installed"]
    cpu: Cpu
    memory: Memory
    os: System
    gpu: Gpu
    source: A[str, "SHA-256 over the source files of loader and bench that it runs"]


class Revision:
    """The source's commit."""

    commit: A[str, "git commit, or unknown"]
    dirty: A[bool | None, "whether the checkout had changes; null where that cannot be told"]
    from_: A[Literal["git", "REVISION", None], "where the commit was read from"]


class Environment:
    """What the run ran on."""

    revision: Revision
    source: A[str, "SHA-256 over the source files of loader and bench"]
    twins: A[dict[Literal["ft", "gil"], Twin], {"minProperties": 1}, "by name: ft (free-threaded) and gil"]


class Skipped:
    what: A[str, "scenario or candidates"]
    why: A[str, "the reason, and what to do about it"]


class Dataset:
    """What the samples were read from."""

    source: A[Literal["generated", "own", "none"], "generated by bench, the user's own, or none"]
    kind: A[str, "images, arrays, ...; nothing for samples that are computed"]
    directory: A[str | None, "where the files are, null for none"]
    files: A[Count, "how many"]
    resized: A[Count, "how many have another size and are resized when they are loaded"]
    mean_bytes: A[Count, "mean size of a file"]
    version: A[int | None, "of the generator, null for what was not generated"]


class Load:
    """How much is loaded, and of what."""

    sample_bytes: A[Whole, "bytes of a sample in a batch"]
    dataset: Dataset
    batch_size: A[Whole, "samples a batch, the same for all candidates"]
    requested_batch_size: A[Whole, "before it was made smaller to fit into memory"]
    batches_per_worker: A[Whole, "length of a turn: each worker builds as many"]
    turns: A[Whole, "how many times a trial measures so many, in turn with the others of its round"]


class Case(Load):
    name: A[str, {"pattern": "^([A-Za-z0-9][A-Za-z0-9._-]*)?$"}, "part of candidates' keys; the first may be empty"]
    title: A[str, "for people"]
    parameters: A[dict, "what makes the case, as the trial got it"]
    value: A[float | None, "its place on the axis, in case_unit; null for what has no order"]


class Candidate:
    key: A[str, "config/variant/workers, @case where there are cases"]
    title: A[str, "for people"]
    config: A[Config, "gil: GIL build; ft-gil: free-threaded build, its GIL forced on; ft: free-threaded build"]
    variant: A[Name, "who loads (bench/ftbench/plan/candidates.py)"]
    workers: A[Count, "how many; 0 where the training loop loads by itself"]
    case: A[str, "name of the case, empty if the scenario has none"]


class Over:
    title: A[str, "what it is, for an axis: samples loaded, step"]
    values: A[Series, "one for each value, ascending"]


class Distribution:
    unit: A[str, "of the values"]
    values: A[Series, "in the order they were taken"]
    over: A[Over, OPTIONAL, "what the values of a curve follow; without it their order says nothing"]


class Disturbance:
    """What else ran while trials ran (ftbench.machine.disturbance)."""

    seconds: A[Positive, "that the figures are means over"]
    own_cpus: A[NotNegative, "CPUs that the trial used"]
    other_cpus: A[NotNegative | None, "CPUs that others used of those that it may use; null where not to be told"]
    stolen_cpus: A[NotNegative | None, "CPUs that the hypervisor gave to others (steal time); null where not told"]
    throttled_seconds: A[NotNegative | None, "that its control group stood still for its quota; null without a group"]


class RoundDisturbance(Disturbance):
    before: State
    after: State
    marks: A[
        list[str], "what disturbed it beyond ftbench.machine.disturbance's thresholds, in words; empty if nothing did"
    ]


class Trial:
    candidate: A[str, "its key"]
    metrics: A[dict[Name, Positive], {"minProperties": 1}, "what was measured, by metric, in its unit"]
    samples: A[Count, "how many were loaded while it was measured"]
    batches: A[Count, "how many were measured; 0 where the scenario loads none"]
    first_batch: A[Count | None, "CRC-32 of the first batch, the same for all of a case; null for none to compare"]
    rows: A[list[Count], "CRC-32 of every 102nd row of each batch of the turns, also those that are not timed"]
    turn_seconds: A[list[Positive], "seconds of each turn's timed middle, in their order; none without turns"]
    turn_began: A[list[float], "when the timed middle of each turn began, in seconds since 1970"]
    distributions: A[dict[Name, Distribution], "single values of what metrics sum up (step times); six digits"]
    torch: A[str, "version of torch"]
    free_threaded: A[bool, "of the interpreter that measured"]
    gil_enabled: A[bool, "at the end of the trial"]
    disturbance: A[Disturbance, "what else ran while the trial ran"]


class Round:
    number: A[Whole, "1, 2, ..."]
    seconds: A[Positive, "that it took"]
    trials: A[list[Trial], "in the order they ran"]
    disturbance: A[RoundDisturbance, "what else ran during the round"]


class Range:
    median: A[float, "the middle round"]
    min: A[float, "the lowest round"]
    max: A[float, "the highest round"]


class Percentiles:
    unit: A[str, "of the values"]
    values: A[Whole, "how many there are in all rounds"]
    percentiles: A[dict[str, Range], "50, 90, 99: of each round its own, then their median, min and max"]


class Summary:
    key: A[str, "of the candidate"]
    n: A[Whole, "rounds"]
    metrics: A[dict[Name, Range], {"minProperties": 1}, "median, min and max over the rounds, by metric"]
    distributions: A[dict[str, Percentiles], "of the trials' distributions, by name; none of curves ('over')"]


class Aim(Target):
    verdict: A[str, {"enum": [MET, MISSED, UNCLEAR]}, "met or missed if the whole interval says so"]


class Comparison(Ratio):
    kind: A[
        str,
        {"pattern": "^[a-z-]+$"},
        "step and total: of a chain (waterfalls); headline: ft threads against gil processes; gil: with and without "
        "the GIL in the same build; build: the free-threaded build with its GIL on against the GIL build; method: "
        "threads against processes; scaling: N workers against 1; chosen: what the scenario names; others are the "
        "scenario's own",
    ]
    title: A[str, "for people; what follows a colon is a remark"]
    numerator: A[str, "key of a candidate"]
    denominator: A[str, "key of a candidate"]
    metric: Metric
    verdict: A[str, "the words of bench/ftbench/plan/metrics.py for a ratio, or: no difference shown, too few rounds"]
    target: A[Aim | None, "what the ratio should be, null where nothing is wanted"]
    q: A[Part | None, "p adjusted for the run's comparisons (Benjamini and Hochberg); null for fewer than three rounds"]
    asked: A[bool, "whether the run was made for it; all others are explored, and corrected for their number"]


class Analysis:
    """Computed from the rounds (ftbench.stats.statistics)."""

    candidates: A[list[Summary], "those that took part in every round"]
    comparisons: A[list[Comparison], "ratios of candidates with others, the most important first"]


class Scenario(Load):
    name: A[str, "as on the command line"]
    group: A[str, "the group of scenarios it belongs to, or empty"]
    question: A[str, "what it answers, or empty"]
    description: A[str, "what is done"]
    note: A[str, "what every output has to say of it (a CPU backend where there is no GPU), or empty"]
    sample: A[str, "what one sample is"]
    prefetch_factor: A[Whole, "batches that each worker loads in advance"]
    seed: A[Count, "of the order within rounds"]
    metrics: A[list[Metric], {"minItems": 1}, "what was measured; the first is what the scenario is about"]
    case_axis: A[str, "what the cases differ in (sample size), empty without cases"]
    case_unit: A[str, "the unit of the cases' values, or empty"]
    cases: A[list[Case], "the conditions that it was measured under, in order; empty if there is but one"]
    picture: A[str | None, OPTIONAL, "some samples as a PNG, in base64; null where the scenario draws none"]
    candidates: A[list[Candidate], {"minItems": 1}, "who took part, given up later or not"]
    rounds: A[list[Round], {"minItems": 1}, "finished rounds; in each, every candidate was measured once"]
    analysis: Analysis


class Change:
    """A ratio with its 95% interval over n rounds, as in the comparison that it is taken from."""

    ratio: A[Positive, "its geometric mean"]
    low: A[Positive | None, "lower end of the interval, null for one round"]
    high: A[Positive | None, "upper end of the interval"]
    n: A[Whole, "rounds"]
    resolution: A[float | None, {"minimum": 1}, "the smallest factor that would have been shown"]
    verdict: A[str, "in words"]


class Start:
    name: A[str, "for people"]
    candidate: A[str, "its key"]
    value: A[Positive, "geometric mean of its processes, in the metric's unit"]


class Step(Change):
    name: A[str, "what changes in this step"]
    candidate: A[str, "who is reached by it"]


class Chain:
    """The figures of a waterfall in one metric; the steps multiply to the total."""

    start: A[Start, "what people run today"]
    steps: A[list[Step], {"minItems": 1}, "one change each"]
    total: Change
    end: A[Positive, "geometric mean of the last candidate's processes, in the metric's unit"]


class Waterfall(Chain):
    """From what people run today to threads without the GIL, one change a step: samples/s at the most workers."""

    workload: A[str, "for people"]
    scenario: A[str, "its name"]
    case: A[str, "its name, or empty"]
    workers: A[Count, "of each candidate"]
    cpu_per_1000: A[Chain, "the same in seconds of CPU time for 1,000 samples"]
    ends: A[dict[str, A[list[Positive], {"minItems": 2, "maxItems": 2}]], "time_to_first_batch, pss_mib: start and end"]
    missing: A[list[str], "configurations and kinds of workers that were not measured"]


class StressResult:
    scenario: A[str, "name of the scenario: module.Class of tests/stress/scenarios"]
    configuration: A[Config, "what it ran in"]
    threads: A[Whole, "that did the same at once"]
    seed: A[int, "--seed, which repeats its choices"]
    known: A[str, "what is known not to be safe upstream and it keeps clear of, with its link; empty for nothing"]
    iterations: A[Count | None, "rounds of all threads; null where a crash or a hang took their number along"]
    seconds: A[NotNegative, "that it took"]
    failures: A[list[str], "traceback of each; of a crash or a hang the stacks of all threads"]
    outcome: A[Outcome, "failed: an exception, a wrong result; crashed: ended by a signal; hung: it had to be ended"]


class Stress:
    status: A[Status, "complete: every scenario has a result in every configuration, whatever that is"]
    reason: A[str | None, "why it is incomplete, null if it is complete"]
    minutes: A[Positive | None, "that all scenarios shared in each configuration; null for a moment for each"]
    seed: A[int, "what its random choices began with"]
    source: A[str | None, "SHA-256 over the files of tests/stress, the same everywhere; null if nothing has run"]
    scenarios: A[list[str], "names of the scenarios, in the order they ran in"]
    results: A[list[StressResult], "in the order they ended in"]


class Results:
    """One run of the benchmark. Times are in seconds, memory in bytes unless a name says MiB."""

    schema_version: A[int, {"const": SCHEMA_VERSION}, "raised when a reader of the old form would misread the new one"]
    status: A[Status, "incomplete: some rounds are missing; reason says why"]
    reason: A[str | None, "why it is incomplete, null if it is complete"]
    started: A[str, "ISO 8601, UTC"]
    seconds: A[float, "that the whole run took"]
    options: Options
    environment: Environment
    warnings: A[list[str], "what a reader has to know before the figures, in words"]
    skipped: A[list[Skipped], "what was not measured, and why"]
    scenarios: A[list[Scenario], {"minItems": 1}, "what was measured, in the order of the run"]
    waterfalls: A[list[Waterfall], "for each scenario and case with a chain"]
    stress: A[Stress, OPTIONAL, "what the thread-safety suite (tests/stress) found; absent if it was not begun"]
    seal: A[dict[str, Checksum], "SHA-256 of each part (ftbench.document.check), by which a later change is noticed"]
