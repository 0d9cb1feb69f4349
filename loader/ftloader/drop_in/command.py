"""``python -m ftloader``: runs a program as ``python`` would, with this package's class in the
place of torch's.
"""

import atexit
import builtins
import contextlib
import functools
import os
import runpy
import sys
import types
import zipfile
from importlib.machinery import ModuleSpec, SourceFileLoader
from typing import Any

from ftloader.diagnosis import loaders
from ftloader.diagnosis.call_site import Origin, origin_of
from ftloader.diagnosis.exceptions import set_traceback, traceback_of
from ftloader.drop_in.arguments import PROGRAM, ProgramCommand, parse
from ftloader.drop_in.children import install_in_children
from ftloader.drop_in.installed import install, stateful_class
from ftloader.drop_in.report import LoadersReport


class _NoModuleError(Exception):
    """Error for which ``python -m`` prints one line."""


def main() -> None:
    """Run the program that the command line names. Whatever it raises is raised."""
    command = parse(sys.argv[1:])
    settings = command.settings
    install(settings.workers, settings.worker_method, settings.copy_dataset)
    install_in_children(settings)
    log = loaders.start()
    _note_stateful(log)
    try:
        code, module = _load(command)
        # The first function that is registered is called last: after the program's own ones, and
        # after all threads, also if an exception or Ctrl-C has ended the program.
        if os.environ.get("RANK", "0") in ("", "0"):
            atexit.register(LoadersReport(log, command).write, os.getpid())
        exec(code, vars(module))
    except BaseException as error:
        if not isinstance(error, SystemExit):
            _hide_our_frames(error)
        raise


def _note_stateful(log: loaders.LoaderLog) -> None:
    """Note in *log* also the loaders of torchdata's class, which keep its iterators."""
    stateful = stateful_class()
    if stateful is None:
        return
    original = stateful.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        log.add(None, "StatefulDataLoader of torchdata")

    stateful.__init__ = __init__


def _load(command: ProgramCommand) -> tuple[types.CodeType, types.ModuleType]:
    """Return the program's code, and the module ``__main__`` for it. Set what a program reads of
    its start: ``sys.argv``, ``sys.path`` and ``sys.modules``.
    """
    module = types.ModuleType("__main__")
    if sys.version_info < (3, 14):
        module.__annotations__ = {}
    module.__builtins__ = builtins  # type: ignore[attr-defined]
    if command.is_module:
        sys.argv[:] = ["-m", *command.arguments]  # as python has it until the module is there
        try:
            _, spec, code = runpy._get_module_details(command.program, _NoModuleError)  # type: ignore[attr-defined]
        except _NoModuleError as error:
            raise SystemExit(f"{PROGRAM}: {error}") from None
        _describe(module, spec)
        sys.argv[0] = spec.origin
    else:
        code = _load_script(module, command.program)
        sys.argv[:] = [command.program, *command.arguments]
    sys.modules["__main__"] = module
    return code, module


def _load_script(module: types.ModuleType, path: str) -> types.CodeType:
    """Return the code of a script, or of a folder or archive with a ``__main__.py``."""
    full = os.path.join(os.getcwd(), path)
    if not sys.flags.safe_path:
        del sys.path[0]  # the working directory, which "python -m" has put there
    if os.path.isdir(full) or zipfile.is_zipfile(full):
        sys.path.insert(0, full)
        try:
            _, spec, code = runpy._get_main_module_details(_NoModuleError)  # type: ignore[attr-defined]
        except _NoModuleError as error:
            raise SystemExit(f"{PROGRAM}: {error}") from None
        _describe(module, spec)
        return code
    if not sys.flags.safe_path:
        sys.path.insert(0, os.path.dirname(os.path.realpath(full)))
    try:
        code = runpy._get_code_from_file(full)  # type: ignore[attr-defined]
    except OSError as error:
        if sys.stderr is not None:  # else print() would take stdout
            reason = f"[Errno {error.errno}] {error.strerror}"
            print(f"{PROGRAM}: can't open file {full!r}: {reason}", file=sys.stderr)
        raise SystemExit(2) from None
    module.__file__ = full
    module.__cached__ = None  # type: ignore[attr-defined]
    module.__loader__ = SourceFileLoader("__main__", full)
    return code


def _describe(module: types.ModuleType, spec: ModuleSpec) -> None:
    module.__spec__ = spec
    module.__file__ = spec.origin
    module.__cached__ = spec.cached  # type: ignore[attr-defined]
    module.__loader__ = spec.loader
    module.__package__ = spec.parent


def _hide_our_frames(error: BaseException) -> None:
    """Make the interpreter show *error*'s traceback as if it had started the program itself."""
    show = sys.excepthook

    def excepthook(kind: type[BaseException], value: BaseException, trace: Any) -> None:
        if value is error:
            trace = traceback_of(error)
            while trace is not None and _started_the_program(trace.tb_frame.f_code.co_filename):
                trace = trace.tb_next
            with contextlib.suppress(Exception):
                set_traceback(error, trace)
        show(kind, value, trace)

    sys.excepthook = excepthook


def _started_the_program(filename: str) -> bool:
    return origin_of(filename) is Origin.ENGINE or filename == "<frozen runpy>"
