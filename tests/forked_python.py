"""Programs in processes forked from one that has imported torch, which takes seconds."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from tests.checkout import importable

# The programs end as any program does: by reaching the end of the main module,
# with their globals in place.
_SERVER = """
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    child = os.fork()
    if child == 0:
        for fd, path in enumerate((os.devnull, request["out"], request["err"])):
            os.dup2(os.open(path, os.O_RDWR), fd)
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
exec(compile(request["source"], "program.py", "exec"), globals())
"""


class ForkedPython:
    """A process that has made the *imports*, and forks a child for each program.

    It starts when it is needed. It is killed together with a program that hangs,
    and starts again."""

    def __init__(self, imports: str) -> None:
        self._imports = imports
        self._process: subprocess.Popen | None = None

    def run(self, source: str, folder: Path) -> tuple[int, str, str]:
        """Run a program to its end; return its exit status,
        and what it wrote to stdout and stderr.
        """
        out, err = folder / "out", folder / "err"
        out.write_text("")
        err.write_text("")
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"import {self._imports}\n{_SERVER}"],
                env=os.environ | {"PYTHONPATH": importable()},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        request = {"source": textwrap.dedent(source), "out": str(out), "err": str(err)}
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            status = int(self._process.stdout.readline())
        except BaseException:  # the test's time is over
            self.kill()
            raise
        return status, out.read_text(), err.read_text()

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
