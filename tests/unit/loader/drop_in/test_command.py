"""``python -m ftloader``: a program runs as with ``python``, and its loaders are listed."""

import json
import os
import re
import signal
import sys
import textwrap
import zipfile

import pytest

from ftloader.drop_in.arguments import parse
from tests.checkout import importable
from tests.programs import completed

FACTS = """
import os, pickle, sys
class Kept:
    pass
assert type(pickle.loads(pickle.dumps(Kept()))) is Kept
if __name__ == "__main__":
    names = {name: str(value) for name, value in globals().items() if name.startswith("__")}
    print(names, sys.argv, sys.path[0], sys.modules["__main__"].Kept is Kept)
    sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the program FACTS in each form that python can run."""
    for name in "facts.py", "package/__main__.py", "package/module.py", "sub/facts.py":
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(FACTS)
    (tmp_path / "package" / "__init__.py").write_text("")
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", FACTS)
    os.symlink(tmp_path / "sub" / "facts.py", tmp_path / "link.py")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_forked(run_program, *words):
    """Run ``python -m ftloader`` with these words in a process that has imported torch already."""
    return run_program(f"""
        import os, sys
        os.chdir({os.getcwd()!r})
        sys.path[0] = os.getcwd()
        sys.argv[:] = ["__main__.py", *{words!r}]
        from ftloader.drop_in.command import main
        main()
    """)


def without_addresses(text):
    return re.sub(r" at 0x\w+", "", text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        ["facts.py"],
        ["sub/facts.py"],
        ["link.py"],
        ["package"],
        ["archive.zip"],
        ["-m", "package"],
        ["-m", "package.module"],
    ],
    ids=" ".join,
)
def test_a_program_sees_what_it_sees_with_python(program, folder, run_program):
    words = [*program, "7", "--workers", "x", "-m", "--", "y"]
    expected = completed([sys.executable, "-B", *words], 7, cwd=folder)
    status, out, err = run_forked(run_program, *words)
    assert (status, without_addresses(out)) == (7, without_addresses(expected.stdout))
    assert err == f"python -m ftloader: {program[-1]} made no DataLoader of torch\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "status", "line"),
    [
        (["gone.py"], 2, "can't open file '{0}/gone.py': [Errno 2] No such file or directory"),
        (["empty"], 1, "can't find '__main__' module in '{0}/empty'"),
        (["-m", "gone"], 1, "No module named gone"),
        ([], 2, "error: a SCRIPT or -m MODULE to run is missing"),
        (["--workers", "-3", "facts.py"], 2, None),
        (["--workers", "all", "facts.py"], 2, "'all' is neither a number nor \"auto\""),
        (["--worker-method", "fiber", "facts.py"], 2, "invalid choice: 'fiber'"),
        (["--report", "gone/x.json", "facts.py"], 2, "gone/x.json' cannot be a file"),
        (["--wokers", "2", "facts.py"], 2, "unrecognized arguments: --wokers"),
    ],
    ids=str,
)
def test_bad_input_is_one_line_and_an_exit_status(words, status, line, folder, run_program):
    (folder / "empty").mkdir()
    found, out, err = run_forked(run_program, *words)
    assert (found, out) == (status, "") and "Traceback" not in err
    assert (line or "").format(folder) in err.splitlines()[-1]


@pytest.mark.slow
def test_the_table_never_goes_to_stdout(folder):
    command = f"{sys.executable} -m ftloader facts.py 7 2>&-"
    done = completed(["sh", "-c", command], 7, cwd=folder)
    assert len(done.stdout.splitlines()) == 1, "what the program prints"


def test_what_follows_the_program_is_the_programs():
    command = parse(["--workers", "auto", "--copy-dataset", "-m", "a.b", "--workers", "3", "-m"])
    assert (command.program, command.is_module) == ("a.b", True)
    assert command.arguments == ["--workers", "3", "-m"]
    assert (command.settings.workers, command.settings.copy_dataset) == ("auto", True)
    assert command.settings.worker_method is None


TRAINING = """
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Rows(Dataset):
        def __len__(self):
            return 64
        def __getitem__(self, index):
            return torch.full((3,), float(index))

    def loader_of(**options):
        return DataLoader(Rows(), batch_size=8, **options)

    def train():
        torch.manual_seed(1)
        loader, total = loader_of(shuffle=True, num_workers=2), 0.0
        unused = DataLoader(Rows())
        for epoch in range(2):
            for batch in loader:
                total = total * 0.5 + batch.sum().item()
        for _ in range(20):
            for batch in loader_of():
                break
        return total

    print(train())
"""


def start(folder, words, source, **options):
    """Run the program *source* with python and the *words* before it, to its end."""
    (folder / "train.py").write_text(textwrap.dedent(source))
    environment = {**os.environ, "PYTHONPATH": importable()}
    return completed(
        [sys.executable, *words, "train.py", "argument"], cwd=folder, env=environment, **options
    )


@pytest.mark.slow
def test_a_training_program_that_fails_prints_its_traceback_then_the_table(tmp_path):
    source = TRAINING + "    raise ValueError('the end')\n"
    plain = start(tmp_path, [], source)
    ours = start(
        tmp_path, ["-m", "ftloader", "--report", str(tmp_path / "x.json"), "--workers", "2"], source
    )
    assert (ours.returncode, ours.stdout) == (1, plain.stdout)
    assert ours.stderr.startswith(plain.stderr) and "the end" in plain.stderr
    table = ours.stderr.removeprefix(plain.stderr).splitlines()
    assert table[0] == "python -m ftloader: loaders of this program"
    assert table[1].split() == ["made", "at", "workers", "batches", "seconds", "waited"]
    kind = "processes" if sys._is_gil_enabled() else "threads"
    state = "on" if sys._is_gil_enabled() else "off"
    line = next(
        number for number, row in enumerate(source.splitlines()) if "return DataLoader" in row
    )
    assert any(
        row.startswith(f"train.py:{line + 1} (21 loaders)") and f"2 {kind}" in row for row in table
    )
    assert f"  why:    the GIL is {state}" in table
    assert any(row.startswith("  limit:") for row in table)
    assert any(row.startswith("  unused: ") for row in table)
    report = json.loads((tmp_path / "x.json").read_text())
    assert report["arguments"] == ["argument"] and report["gil"] is sys._is_gil_enabled()
    used, unused = report["loaders"]
    assert used["statistics"]["batches"] == 16 + 20 and unused["statistics"]["batches"] == 0
    assert used["reason"] == f"the GIL is {state}" and used["statistics"]["limit"]


@pytest.mark.slow
def test_ctrl_c_ends_the_program_as_with_python_after_the_table(tmp_path):
    source = TRAINING + "    import os, signal; os.kill(os.getpid(), signal.SIGINT)\n    input()\n"
    done = start(tmp_path, ["-m", "ftloader"], source)
    assert done.returncode == -signal.SIGINT
    trace, _, table = done.stderr.partition("KeyboardInterrupt\n")
    assert re.findall('File "(.*)", line', trace) == [str(tmp_path / "train.py")]
    assert table.startswith("python -m ftloader: loaders of this program\n")


CHILDREN = """
    import multiprocessing, sys
    import torch.utils.data
    from torch.utils.data import DataLoader

    def child(queue):
        loader = DataLoader(range(4), num_workers=1)
        queue.put([type(loader).__module__, loader.worker_method, torch.cat(list(loader)).tolist()])

    if __name__ == "__main__":
        for method in "fork", "spawn", "forkserver":
            context = multiprocessing.get_context(method)
            queue = context.Queue()
            process = context.Process(target=child, args=(queue,))
            process.start()
            print(method, queue.get())
            process.join()
"""


@pytest.mark.slow
def test_processes_that_the_program_starts_have_the_class_too(tmp_path):
    done = start(tmp_path, ["-m", "ftloader", "--worker-method", "thread"], CHILDREN)
    rows = ["ftloader.drop_in.installed", "thread", [0, 1, 2, 3]]
    assert done.stdout.splitlines() == [
        f"{name} {rows}" for name in ("fork", "spawn", "forkserver")
    ]
    assert done.stderr == "python -m ftloader: train.py made no DataLoader of torch\n"


RANKS = """
    import os, torch, torch.distributed
    from torch.utils.data import DataLoader, DistributedSampler

    torch.distributed.init_process_group("gloo")
    rank, total = torch.distributed.get_rank(), torch.zeros(())
    sampler = DistributedSampler(range(16))
    for batch in DataLoader(range(16), 4, sampler=sampler, num_workers=1):
        total += batch.sum()
    torch.distributed.all_reduce(total)
    if rank == 1:
        print(total.item())
    torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_torchrun_has_the_table_of_rank_0_alone(tmp_path):
    words = [
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "ftloader",
    ]
    done = start(tmp_path, words, RANKS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("120.0\n")  # gloo prints, too
    assert done.stderr.count("loaders of this program") == 1
    assert len([row for row in done.stderr.splitlines() if row.startswith("train.py:8 ")]) == 1


@pytest.mark.slow
def test_loaders_of_other_classes_are_named(folder, run_program):
    pytest.importorskip("torchdata")
    (folder / "train.py").write_text(
        "import torch.utils.data\n"
        "from torchdata.stateful_dataloader import StatefulDataLoader\n"
        "list(StatefulDataLoader(range(4)))\n"
        "class Theirs(torch.utils.data.DataLoader):\n    pass\n"
        "torch.utils.data.DataLoader = torch.utils.data.dataloader.DataLoader = Theirs\n"
        "list(Theirs(range(4)))\n"
    )
    status, _, err = run_forked(run_program, "train.py")
    assert status == 0
    assert "train.py:3" in err and "StatefulDataLoader of torchdata, unchanged" in err
    assert "train.py:7" in err and "has put __main__.Theirs in the place" in err
