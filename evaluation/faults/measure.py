"""Which of twelve faults does `./twins test --quick` find? Each was once in this repository, and is
put back here.

    python3 evaluation/faults/measure.py [NAME ...]

Each fault is put into a copy of the checkout. Quick tests of that code run first; if they pass, all
quick tests run. Takes one to three minutes for each fault on two cores.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

CHECKOUT = Path(__file__).resolve().parents[2]


class Fault(NamedTuple):
    """A fault: the file, its present code, the code with the fault,
    and the folder with the package's tests.
    """

    file: str
    old: str
    new: str
    tests: str


FAULTS = {
    "1a85e66: workers stay after an interrupted close()": Fault(
        "loader/ftloader/workers/pool.py",
        "        wait = not self.stopped and self.may_wait()\n        self.stop()\n"
        "        if wait:\n",
        "        if self.stopped:\n            return\n        self.stop()\n"
        "        if self.may_wait():\n",
        "unit/loader/workers",
    ),
    "efdc482: a sample that is SKIP is left out": Fault(
        "loader/ftloader/batch/errors.py",
        "sample for sample in samples if type(sample) is not Skipped\n    ] if skipped else samples",
        "sample for sample in samples if type(sample) is not Skipped and sample is not SKIP\n    ]",
        "unit/loader/batch",
    ),
    "4704a2b: file names that are no UTF-8 have no random numbers": Fault(
        "loader/ftloader/rng/sample.py",
        '.encode("utf-8", "surrogatepass")',
        '.encode("utf-8")',
        "unit/loader/rng",
    ),
    "d93d8f9: a shorter dataset is resumed": Fault(
        "loader/ftloader/state/order.py", " or self._drawn <= checked:", ":", "unit/loader/state"
    ),
    "54728ae: samples of a segment that cannot be sealed are lost": Fault(
        "loader/ftloader/cache/store.py",
        "            self._keys.difference_update(writer.keys)\n",
        "",
        "unit/loader/cache",
    ),
    "20f0e9f: threads load Pillow's plugins": Fault(
        "loader/ftloader/decode/pillow.py",
        "Image.preinit()\nImage.init()\n",
        "",
        "unit/loader/decode",
    ),
    "7cb2256: a chain is named after a loader that it lacks": Fault(
        "bench/ftbench/stats/waterfall.py",
        "if not links and side.variant != TODAY:",
        "if False:",
        "unit/bench",
    ),
    "735f198: runs with different collate functions are compared": Fault(
        "bench/ftbench/compare/identity.py",
        '        facts["collate_fn"] = run.options.collate_fn or USUAL_COLLATE\n',
        "",
        "unit/bench",
    ),
    "344e716: runs with different failures end as all alike": Fault(
        "safety/ftsafety/repro/stopping.py",
        "frozenset(each[:2] for each in signatures_of(outcome))",
        "*(each[:2] for each in signatures_of(outcome)[:1])",
        "unit/safety",
    ),
    "cb872fb: a dataset forges the audit's all-clear": Fault(
        "safety/ftsafety/audit/cli.py", ' and message["status"] in (2, 3):', ":", "unit/safety"
    ),
    "edc9b7f: a notebook is asked": Fault(
        "native/machine.py", ' and "JPY_PARENT_PID" not in os.environ', "", "native"
    ),
    "63a1ec6: a yanked wheel fits ==1.*": Fault(
        "runtime/ftrun/wheels/judge.py", ' and not limit.version.endswith(".*")', "", "unit/runtime"
    ),
}


def copied(folder: Path, fault: Fault) -> None:
    """Copy the checkout's files into `folder`, and put the fault into one."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=CHECKOUT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    for name in listed.splitlines():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / name, folder / name, follow_symlinks=False)
    text = (folder / fault.file).read_text()
    assert text.count(fault.old) == 1, f"{fault.file} has changed: {fault.old!r}"
    (folder / fault.file).write_text(text.replace(fault.old, fault.new))


def failures(folder: Path, *arguments: str) -> str:
    """Run ./twins up to the first test that fails; return that, "" if all pass."""
    done = subprocess.run(
        ["./twins", *arguments, "-x"], cwd=folder, capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines() or [done.stderr]
    return next(
        (line for line in lines if line.startswith(("FAILED", "ERROR"))),
        lines[-1] if done.returncode else "",
    )


def main(names: list[str]) -> int:
    """Print for each fault the test that found it;
    return the number of faults that no test found.
    """
    missed = 0
    for name in names or FAULTS:
        with tempfile.TemporaryDirectory() as work:
            copied(Path(work), FAULTS[name])
            own = [
                "exec",
                "ft",
                "python",
                "-m",
                "pytest",
                "-q",
                "--quick",
                f"tests/{FAULTS[name].tests}",
            ]
            found = failures(Path(work), *own) or failures(Path(work), "test", "--quick")
        missed += not found
        print(f"{name}\n    {found or 'NOT FOUND'}", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
