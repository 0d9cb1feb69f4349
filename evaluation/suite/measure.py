"""Run PyTorch's own tests of its ``DataLoader``: with torch's class, and with this package's class in
its place.

    ./twins exec ft python -m evaluation.suite.measure TESTS [WAY ...] [--out results.json]

TESTS is PyTorch's file test/test_dataloader.py, which no wheel has. Debian's source package does,
and the version nearest to the locked one is best:

    docker/debian-apt trixie /tmp/apt update
    docker/debian-apt trixie /tmp/apt source --download-only pytorch
    tar -xf pytorch_*.orig.tar.xz --strip-components=2 --wildcards '*/test/test_dataloader.py'

The tests import ``expecttest``, which is not locked: ``pip install --target DIR expecttest``, and
PYTHONPATH=DIR. Nothing is deselected. A way runs the whole file in one process. A test that neither
passed nor was skipped runs once more, alone in a process, and that result counts. So does one that
has no result, since the process crashed. Ten minutes a way on two idle cores; a busy machine fails
tests of their own limits of 60 s.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

WAYS = {
    "torch": None,
    "thread": {"worker_method": "thread"},
    "copies": {"worker_method": "thread", "copy_dataset": True},
    "process": {"worker_method": "process"},
    "auto": {"worker_method": "auto"},
}
"""Arguments of ``ftloader.install()``. None: torch's class stays."""
_WAY, _OUTCOMES = "SUITE_WAY", "SUITE_OUTCOMES"


# This module is also the plugin of pytest that has the following hooks.


def pytest_configure():
    if (settings := WAYS[os.environ[_WAY]]) is not None:
        # Not with torch's class, since the import of ftloader replaces names in torch.
        from ftloader.drop_in.children import install_in_children
        from ftloader.drop_in.installed import DropInSettings, install

        install(**settings)
        install_in_children(DropInSettings(**settings))


def pytest_collection_modifyitems(items):
    for item in items:
        _write(item.nodeid, "no result")


def pytest_runtest_logreport(report):
    if report.when == "call" or not report.passed:
        _write(report.nodeid, report.outcome, report.longreprtext)


def _write(test, outcome, text=""):
    with open(os.environ[_OUTCOMES], "a", encoding="utf-8") as file:
        file.write(json.dumps([test, outcome, text]) + "\n")


def run(way, file, tests, seconds):
    """Run *tests* of *file* in one process; return {test: (outcome, text)}."""
    with tempfile.TemporaryDirectory() as folder:
        outcomes = Path(folder, "outcomes")
        outcomes.touch()
        command = [sys.executable, "-m", "pytest", "-q", "-p", __spec__.name, "-c", os.devnull]
        command += ["--rootdir", file.parent, "--timeout", seconds, "--timeout-method", "signal"]
        variables = {_WAY: way, _OUTCOMES: str(outcomes)}
        variables["PYTHONPATH"] = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
        subprocess.run([*command, *tests], cwd=file.parent, env=os.environ | variables)
        results = {}
        for line in outcomes.read_text(encoding="utf-8").splitlines():
            test, *result = json.loads(line)
            if results.get(test, [""])[0] != "failed":  # in an earlier phase of it, or a subtest
                results[test] = result
    return results


def measure(way, file, seconds):
    """Run all tests of *file*, and those that neither passed nor were skipped again, each alone."""
    results = run(way, file, [file.name], seconds)
    for test, (outcome, _) in list(results.items()):
        if outcome not in ("passed", "skipped"):
            results |= run(way, file, [test], seconds)
    return results


def report(results):
    """Print a row for each way, and its tests that fail and pass with torch's class."""
    print("| way | passed | failed | skipped | failed, but not with torch's class |")
    print("|---|---:|---:|---:|---:|")
    worse = []
    for way, outcomes in results.items():
        count = collections.Counter(outcome for outcome, _ in outcomes.values())
        failed = [
            test for test, (outcome, _) in outcomes.items() if outcome not in ("passed", "skipped")
        ]
        ours = [test for test in failed if results["torch"][test][0] == "passed"]
        worse += [f"{way}: {test.partition('::')[2]}: {_cause(outcomes[test])}" for test in ours]
        print(f"| {way} | {count['passed']} | {len(failed)} | {count['skipped']} | {len(ours)} |")
    print("", *worse, sep="\n")


def _cause(result):
    outcome, text = result
    return next((line[1:].strip() for line in text.splitlines() if line.startswith("E ")), outcome)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=lambda name: Path(name).resolve(strict=True))
    parser.add_argument("ways", nargs="*", default=list(WAYS), metavar="WAY", help=", ".join(WAYS))
    parser.add_argument("--seconds", default="300", help="limit of each test (default: 300)")
    parser.add_argument("--out", type=Path, help="a JSON file for outcomes and tracebacks")
    options = parser.parse_args()
    results = {}
    for way in dict.fromkeys(["torch", *options.ways]):
        results[way] = measure(way, options.file, options.seconds)
        if options.out:
            options.out.write_text(json.dumps(results, indent=1))
    report(results)


if __name__ == "__main__":
    main()
