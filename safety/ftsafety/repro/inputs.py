"""Reading the script that the command line names: a file,
a module of a folder, a notebook or an archive.

Everything is untrusted. Links, devices, FIFOs and paths that leave their folder are refused, and
sizes are limited while reading. Standard library only, for Python 3.9: ftsafety.repro.arguments
imports this file.
"""

from __future__ import annotations

import io
import itertools
import os
import re
import stat
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from ftsafety.errors import CommandLineError, MarkdownError, NotebookError
from ftsafety.repro.markdown import SUFFIXES, has_python, python_of_markdown
from ftsafety.repro.notebook import is_percent_script, python_of_notebook, python_of_percent_script
from ftsafety.repro.script import FILE, MODULE, TESTS, Script, relative

KIB = 1024
LARGEST_SCRIPT = 1024 * KIB
LARGEST_FOLDER = 64 * KIB * KIB
LARGEST_SENT = 8 * KIB * KIB
"""Limits in bytes for all files together: for native runs, and for files sent to a container."""
MOST_FILES = 2000
LEFT_OUT = ("__pycache__", "node_modules")
"""Folders that no script needs; those with a leading dot are left out too."""
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
TEST_FILE = re.compile(r"test_.*\.py|.*_test\.py")
CONFTEST = "conftest.py"
HAS_TESTS = re.compile(rb"^(?:async )?(?:def test|class Test)", re.MULTILINE)
ONLY_REPRO = (
    ": this container sees the folder repro/ only (SCRIPTS=DIR mounts another folder "
    "there); give it another script on standard input (docker compose run --rm -T "
    "ft-repro - <bug.py)"
)
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
UNPACKABLE = (
    zipfile.BadZipFile,
    NotImplementedError,
    EOFError,
    OSError,
    ValueError,
    RuntimeError,
)
"""Raised by zipfile for files that are no archives, or that end too early."""


class Files:
    """Files by path, limited in number and size. Owned by one thread."""

    def __init__(self, most: int):
        self.found: dict[str, bytes] = {}
        self._folders: set[str] = set()
        self._left, self._most = most, most

    def add(self, name: str, content: bytes) -> None:
        """Add a file; raises CommandLineError if its name is invalid or taken,
        or if a limit is exceeded.
        """
        try:
            name = relative(name)
        except ValueError as error:
            raise CommandLineError(str(error)) from None
        parents = set(map(str, PurePosixPath(name).parents))
        if name in self.found or name in self._folders or not parents.isdisjoint(self.found):
            raise CommandLineError(f"there are two files {name}")
        self.found[name] = content
        self._folders |= parents
        self._left -= len(content)
        self._limit_number(len(self.found))
        if self._left < 0:
            raise self.too_large()

    def take(self, name: str) -> bytes:
        """Remove a file, and return its content."""
        content = self.found.pop(name)
        self._left += len(content)
        return content

    def read(self, path: str) -> bytes:
        """Return a file's content; raises CommandLineError if that fails,
        or if all files together are too large.
        """
        return read(path, self._left, self.too_large())

    def _limit_number(self, number: int) -> None:
        if number > MOST_FILES:
            raise CommandLineError(
                f"there are more than {MOST_FILES} files and folders; name those that the "
                f"script needs"
            )

    def too_large(self) -> CommandLineError:
        return CommandLineError(
            f"the files have more than {self._most // KIB // KIB} MiB; name those that the "
            f"script needs"
        )

    def add_path(self, path: str) -> None:
        """Add the file or folder at *path* under its own name.
        Hidden folders and those in LEFT_OUT are skipped.
        """
        where = Path(path)
        if not where.is_dir() or where.is_symlink():
            self.add(where.name, self.read(path))
            return
        top = Path(os.path.abspath(where))
        for folder, folders, files in os.walk(top, onerror=_raise):
            folders[:] = sorted(filter(_is_listed, folders))
            _refuse_links(folder, folders)
            for name in sorted(files):
                inside = os.path.join(folder, name)
                self.add(os.path.relpath(inside, top.parent), self.read(inside))

    def add_archive(self, path: str) -> None:
        """Add the files of a .zip."""
        packed = read(path, LARGEST_FOLDER, self.too_large())
        try:
            with zipfile.ZipFile(io.BytesIO(packed)) as archive:
                self._limit_number(len(archive.infolist()))
                for info in archive.infolist():
                    if not info.is_dir():
                        self.add(info.filename, self._unpacked(archive, info))
        except UNPACKABLE as error:
            raise CommandLineError(f"{path} cannot be unpacked: {str(error)[:200]!r}") from error
        except zipfile.zlib.error as error:  # type: ignore[attr-defined]
            raise CommandLineError(f"{path} cannot be unpacked: {error}") from error

    def _unpacked(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG):
            raise CommandLineError(f"{info.filename[:100]!r} in the archive is a link or a device")
        if info.flag_bits & 1 or info.compress_type not in COMPRESSIONS:
            raise CommandLineError(
                f"{info.filename[:100]!r} in the archive is encrypted, or packed in an unusual way"
            )
        with archive.open(info) as file:  # what the archive says about the size may be wrong
            content = file.read(self._left + 1)
        if len(content) > self._left:
            raise self.too_large()
        return content


def read(path: str, most: int, too_large: CommandLineError) -> bytes:
    """Return the content of a regular file; raises `too_large` if it exceeds `most` bytes,
    or another CommandLineError.
    """
    _check_file(path)
    try:
        # O_NONBLOCK: do not wait for a writer if a FIFO has just replaced the file.
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise CommandLineError(f"{path} is no file")
            content = file.read(most + 1)
    except OSError as error:
        raise CommandLineError(f"cannot read {path}: {error.strerror}") from error
    if len(content) > most:
        raise too_large
    return content


def _check_file(path: str) -> None:
    """Raise CommandLineError if *path* names no regular file."""
    _check_name(path)
    # The report would show the target of a link in an untrusted folder of scripts.
    if os.path.islink(path):
        raise CommandLineError(f"{path} is a symbolic link: name the file that it points to")
    if not os.path.exists(path):
        raise CommandLineError(f"there is no file {path}")
    if not os.path.isfile(path):
        raise CommandLineError(f"{path} is no file")


def _check_name(name: str) -> None:
    # Line ends, escape sequences and bytes that are no UTF-8 would reach the report
    # and the terminal.
    if not name.isprintable():
        raise CommandLineError(
            f"{name!r} has characters that cannot be shown: give it another name"
        )


def read_script(path: str, walled: bool) -> bytes:
    """Read the source of the script at *path* ("-" is standard input); raises CommandLineError if
    there is none to read.
    """
    if ADDRESS.match(path):
        raise CommandLineError(
            f"{path} is an address, and repro downloads nothing: an address may give you "
            f"another script than the one "
            "that you have read. Save the script of the issue or gist to a file and run that"
        )
    if path == "-":
        return checked(path, sys.stdin.buffer.read(LARGEST_SCRIPT + 1))
    if os.path.isdir(path):
        raise CommandLineError(
            f"{path} is no file: name a script, or a module of the folder with -m PACKAGE.MODULE"
        )
    if path.isprintable() and not os.path.lexists(path):
        hint = ONLY_REPRO if walled else ""
        raise CommandLineError(f"there is no script {path}{hint}")
    return checked(path, read(path, LARGEST_SCRIPT, _too_long(path)))


def checked(path: str, source: bytes) -> bytes:
    """Return *source*; raises CommandLineError if it is empty, binary, or too long for a script."""
    if len(source) > LARGEST_SCRIPT:
        raise _too_long(path)
    if b"\0" in source:
        raise CommandLineError(f"{path} is no Python source (it holds null bytes)")
    if not source.strip():
        raise CommandLineError(f"{path} is empty")
    return source


def load(
    path: str | None,
    module: str | None = None,
    beside: Sequence[str] = (),
    arguments: Sequence[str] = (),
    stdin: str | None = None,
    walled: bool = False,
) -> Script:
    """Return the script that a command line names; raises CommandLineError.

    Args:
        path: a script, a notebook, a Markdown text, a .zip or "-" (standard input). With
            `module`: the folder that holds the package.
        module: the dotted name of a module to run.
        beside: files and folders to put next to the script.
        arguments: the script's command-line arguments.
        stdin: the file that becomes the script's standard input.
        walled: True if the script is sent to a container, which has a lower limit for all files
            together.
    """
    for name in filter(None, (path, module)):
        _check_name(name)
    files = Files(LARGEST_SENT if walled else LARGEST_FOLDER)
    name, source = _source(path, module, walled, files)
    try:
        source, left_out = _as_python(name, source, from_stdin=path == "-")
    except (NotebookError, MarkdownError) as error:
        raise CommandLineError(f"{path}: {error}") from error
    name = _name_as_python(name)
    title = path or module or ""
    if _is_conftest(name):
        raise CommandLineError(
            f"{title} is no script: pytest reads it for tests beside it; name a file of tests"
        )
    for neighbour in beside:
        files.add_path(neighbour)
    files.add(name, source)  # refuses another file or folder of its name
    standard_input = files.read(stdin) if stdin is not None else b""
    return Script(
        name,
        files.take(name),
        title if title != "-" else "",
        _start(name, source, module),
        tuple(files.found.items()),
        tuple(arguments),
        standard_input,
        left_out,
    )


def _source(path: str | None, module: str | None, walled: bool, files: Files) -> tuple[str, bytes]:
    """Return the script's path in the folder of a run, and its source;
    add its other files to *files*.
    """
    if path is not None and path.endswith(".zip") and os.path.isfile(path):
        files.add_archive(path)
        return _taken(files, module, path)
    if module is not None:
        files.add_path(top_level(path or ".", module))
        return _taken(files, module)
    if path is None:
        raise CommandLineError("SCRIPT is missing: one Python file, or - for standard input")
    source = read_script(path, walled)
    return "script.py" if path == "-" else Path(path).name, source


def _taken(files: Files, module: str | None, archive: str = "") -> tuple[str, bytes]:
    """Take the script out of *files*, which come from a folder or an *archive*;
    return its path and source.
    """
    if module:
        name = module_file(module, files.found)
    else:
        name = script_of_archive(archive, files.found)
    return name, checked(name, files.take(name))


def _as_python(name: str, source: bytes, from_stdin: bool) -> tuple[bytes, tuple[str, ...]]:
    """Return a script's source as plain Python, and the lines that were left out;
    raises NotebookError or MarkdownError.
    """
    if name.endswith(SUFFIXES) or from_stdin and has_python(source):
        source = python_of_markdown(source)
    if name.endswith(".ipynb"):
        return python_of_notebook(source)
    if is_percent_script(source):
        return python_of_percent_script(source)
    return source, ()


def _name_as_python(name: str) -> str:
    if name.endswith((".ipynb", *SUFFIXES)):
        return str(PurePosixPath(name).with_suffix(".py"))
    return name


def _is_conftest(name: str) -> bool:
    return PurePosixPath(name).name == CONFTEST


def _is_main(name: str) -> bool:
    return PurePosixPath(name).name == "__main__.py"


def _is_listed(folder: str) -> bool:
    return folder not in LEFT_OUT and not folder.startswith(".")


def _refuse_links(folder: str, names: Sequence[str]) -> None:
    """Raise CommandLineError if one of the *names* in *folder* is a symbolic link."""
    for name in names:
        path = os.path.join(folder, name)
        if os.path.islink(path):
            raise CommandLineError(f"{path!r} is a symbolic link")


def _start(name: str, source: bytes, module: str | None) -> str:
    """Return the way to start the script: FILE, MODULE or TESTS.

    However the command line names a file of tests: as a script or a module, it would define them
    and run none.
    """
    is_test_file = TEST_FILE.fullmatch(PurePosixPath(name).name)
    if is_test_file and HAS_TESTS.search(source) and b"__main__" not in source:
        return TESTS
    return MODULE if module else FILE


def top_level(folder: str, module: str) -> str:
    """Return the path of the top-level package or file of *module*
    in *folder*; raises CommandLineError.
    """
    parts = module.split(".")
    if not all(map(str.isidentifier, parts)):
        raise CommandLineError(f"-m {module}: that is no name of a module, such as package.module")
    for name in (parts[0], f"{parts[0]}.py"):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            return path
    raise CommandLineError(
        f"-m {module}: {folder} holds neither a folder nor a file {parts[0]}(.py)"
    )


def module_file(module: str, files: dict[str, bytes]) -> str:
    """Return the path in *files* of the module, or of its __main__.py
    if it is a package; raises CommandLineError.
    """
    name = module.replace(".", "/")
    for candidate in (f"{name}.py", f"{name}/__main__.py"):
        if candidate in files:
            return candidate
    raise CommandLineError(f"-m {module}: there is no {name}.py, and no {name}/__main__.py")


def script_of_archive(path: str, files: dict[str, bytes]) -> str:
    """Return the path of the script to run in an archive:
    the topmost __main__.py, else the only topmost script.

    A conftest.py is no script.
    Raises CommandLineError if there is no such script, or more than one.
    """
    sources = [name for name in files if name.endswith((".py", ".ipynb"))]
    scripts = list(itertools.filterfalse(_is_conftest, sources)) or sources
    topmost = _topmost(scripts)
    candidates = list(filter(_is_main, topmost)) or topmost
    if len(candidates) != 1:
        raise CommandLineError(
            f"{path} holds {len(topmost)} scripts: name the one to run with -m PACKAGE.MODULE"
        )
    return candidates[0]


def _topmost(names: Sequence[str]) -> list[str]:
    """Return the paths in the fewest folders."""
    names_by_depth: dict[int, list[str]] = {}
    for name in names:
        names_by_depth.setdefault(name.count("/"), []).append(name)
    return names_by_depth[min(names_by_depth)] if names_by_depth else []


def _too_long(path: str) -> CommandLineError:
    return CommandLineError(
        f"{path} has more than {LARGEST_SCRIPT // KIB} KiB: a reproducer is a short script"
    )


def _raise(error: OSError) -> None:
    raise CommandLineError(f"cannot read {error.filename}: {error.strerror}") from error
