"""One run of a script in one configuration, in a scratch folder of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from ftrun.configurations import CONFIGURATIONS, child_environment
from ftsafety.repro import runner
from ftsafety.repro.clearing import clear
from ftsafety.repro.limits import Limits
from ftsafety.repro.outcome import ERROR, Outcome, classify, printable
from ftsafety.repro.watch import watch

# What a script sees of the caller's variables: what a Python needs to run, and nothing that is secret.
PASSED_ON = ("PATH", "LANG", "TZ", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")
PASSED_ON_PREFIXES = ("LC_", "OMP_", "MKL_", "OPENBLAS_", "NVIDIA_")


def environment(
    config: str, force_off: bool, scratch: Path, threads: int, overlay: str | None, base: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The variables of a run.

    In the configuration ft, PYTHON_GIL is left alone, so that an import that turns the GIL on is seen;
    with `force_off` it is "0", which keeps the GIL off whatever is imported.
    """
    kept = {name: value for name, value in base.items() if name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)}
    variables = child_environment(None, kept)
    forced = CONFIGURATIONS[config].python_gil if config != "ft" else ("0" if force_off else None)
    if forced is not None:
        variables["PYTHON_GIL"] = forced
    if overlay:
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, [overlay, variables.get("PYTHONPATH")]))
    home, temporary = str(scratch / "home"), str(scratch / "tmp")
    return {
        **variables,
        "HOME": home,
        "XDG_CACHE_HOME": home,
        "TMPDIR": temporary,
        "REPRO_THREADS": str(threads),
        # What a crashing process has printed is not lost in a buffer; nothing of the user's own is imported.
        "PYTHONUNBUFFERED": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def run(
    python: str,
    config: str,
    name: str,
    source: bytes,
    threads: int,
    limits: Limits,
    others: Mapping[int, Callable[[], bool]],
    *,
    force_off: bool = False,
    overlay: str | None = None,
    below: tuple[str, ...] = (),
    user: int | None = None,
) -> Outcome:
    """Run a script once; nothing is left of it, in processes or on disk.

    Without `user`, it can leave files outside of its scratch folder.

    Args:
        python: the interpreter of the configuration's twin.
        name: the script's file name.
        others: descriptors to watch meanwhile (see ftsafety.repro.watch).
        overlay: a folder of packages that come before the twin's own.
        below: a command to run the interpreter below, such as a debugger.
        user: the user id to run it under, which owns nothing else in this container.

    Raises:
        OSError: what the script has left cannot be deleted.
        ftrun.child_process.Stopped: a callback of `others` asked for the end.
    """
    scratch = Path(tempfile.mkdtemp(prefix="ft-repro-"))
    try:
        if user is not None:
            scratch.chmod(0o755)
        for folder in ("script", "home", "tmp"):
            (scratch / folder).mkdir()
            (scratch / folder).chmod(0o777)  # for the script's user; others do not get into the scratch folder
        script = scratch / "script" / name
        script.write_bytes(source)

        def command(status: int, stacks: int) -> list[str]:
            specification = {
                "status": status,
                "stacks": stacks,
                "script": str(script),
                "arguments": [str(threads)],
                "limits": {"RLIMIT_DATA": limits.memory, "RLIMIT_FSIZE": limits.disk // 2, "RLIMIT_CORE": 0},
            }
            return [*below, python, "-P", runner.__file__, json.dumps(specification)]

        try:
            ended = watch(
                command,
                environment(config, force_off, scratch, threads, overlay),
                scratch / "home",
                scratch,
                limits,
                others,
                user,
            )
        except OSError as error:
            return Outcome(ERROR, printable(f"the run could not be made: {error}".encode()))
        return classify(ended, f"{scratch / 'script'}{os.sep}")
    finally:
        if user is None:
            _remove(scratch)
        else:
            clear(user, scratch)


def _remove(directory: Path) -> None:
    """Delete a folder, even if the script has taken the permission away."""

    def allow(function, path, _error) -> None:
        with contextlib.suppress(OSError):
            os.chmod(os.path.dirname(path), 0o700)
            os.chmod(path, 0o700, follow_symlinks=False) if not os.path.islink(path) else None
            function(path)

    shutil.rmtree(directory, onexc=allow)
    shutil.rmtree(directory, ignore_errors=True)
