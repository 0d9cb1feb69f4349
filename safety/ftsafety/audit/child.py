"""The process in which an audit runs: python -m ftsafety.audit.child PIPE STACKS OPTIONS.

PIPE and STACKS are file descriptors to write to; OPTIONS is a JSON object. The process writes lines
of JSON into PIPE: at each step {"progress": ..., "threads": true if several threads run}, and at
the end {"report": ...} or {"error": ..., "status": ...}. At a crash or at SIGUSR1, the stacks of
all threads are written into STACKS.
"""

import dataclasses
import faulthandler
import functools
import json
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

from ftrun import host, target
from ftrun.errors import TargetError
from ftrun.gil import noticing
from ftrun.parent_death import die_with_parent
from ftrun.project import DISTRIBUTIONS
from ftsafety.audit import gil
from ftsafety.audit.absent_files import audit_without_files
from ftsafety.audit.empty_copies import CopyError
from ftsafety.audit.report import Report
from ftsafety.audit.run import AuditError, AuditSettings, audit_with


def main() -> None:
    """Run the audit, then end the process by os._exit:
    threads that hang would keep the process alive.
    """
    pipe, stacks, options = map(json.loads, sys.argv[1:])
    target_name = options["target"]
    faulthandler.enable(file=stacks, all_threads=True)
    faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)
    die_with_parent()
    os.set_inheritable(pipe, False)

    def say(**message: Any) -> None:
        os.write(pipe, json.dumps(message).encode() + b"\n")

    def progress(text: str) -> None:
        say(progress=text, threads="threads" in text)

    status = 0
    try:
        say(progress=f"loading {target_name}", threads=False)
        report = _audit(options, progress)
        say(report=report.to_dict())
    except TargetError as error:
        say(error=_lacking(error.__cause__, target_name) or str(error), status=2)
    except (AuditError, CopyError, TypeError, ValueError) as error:
        say(error=str(error), status=3)
    except BaseException as error:
        # The dataset raised it: KeyboardInterrupt, or anything in __getattribute__.
        say(error=f"the dataset raised {''.join(traceback.format_exception(error))}", status=3)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _audit(options: dict[str, Any], progress: Callable[[str], None]) -> Report:
    """Load the dataset and audit it. Raises TargetError, AuditError,
    CopyError and what the dataset raises.
    """
    target_name = options["target"]
    with noticing() as turned_on:
        target_object = target.find(target_name)
        make = functools.partial(target.make, target_object, target_name)
        dataset = make if target.is_factory(target_object) else make()
    settings = AuditSettings(
        **{field.name: options[field.name] for field in dataclasses.fields(AuditSettings)}
    )
    if memory := options["memory"]:
        report = audit_without_files(dataset, memory, settings, progress)
    else:
        report = audit_with(dataset, settings, progress)
    report.findings += gil.findings(turned_on)
    report.dataset = f"{target_name}: {report.dataset}"
    return report


def _lacking(error: BaseException | None, target_name: str) -> str:
    """Return one line with the command that adds the package that *target_name* lacks;
    "" for other errors.
    """
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    package = error.name.partition(".")[0]
    if package == target_name.partition(":")[0].partition(".")[0]:
        return ""
    problem = f"{target_name} needs the package of `import {package}`, which is not here"
    if remedy := host.derived_image():
        return f"{problem}: {remedy}"
    distribution = shlex.quote(DISTRIBUTIONS.get(package, package))
    install = f"./twins exec ft pip install --target packages {distribution}"
    return f"{problem}: {install} && PYTHONPATH=packages {host.audit(target_name)}"


if __name__ == "__main__":
    main()
