"""Exceptions of a script: text, place, and the cause
if it is no race (a missing package or argument, ...).

ftsafety.repro.runner loads this file alone, with any Python.
"""

import ast
import contextlib
import importlib.machinery
import os
import re
import sys

# Patterns that tell guards (see guard_of), by cause.
GUARDS = {
    "gil": r"_is_gil_enabled|Py_GIL_DISABLED|PYTHON_GIL",
    "version": r"\b(?:version_info|hexversion|python_version(?:_tuple)?|sys\.version)\b",
    "arguments": r"\bargv\b",
}
# Names and attributes in expressions that depend on the interpreter and the arguments alone.
WORDS = frozenset(
    "sys _is_gil_enabled version_info hexversion version major minor argv sysconfig get_config_var "
    "platform python_version python_version_tuple os environ getenv get getattr hasattr bool int "
    "len map str tuple".split()
)
PARSERS = ("argparse.py", "optparse.py", "getopt.py", "/click/", "/typer/", "/docopt")
NO_CAUSE = "", ""


def ours(filename: str) -> bool:
    return os.path.dirname(filename) == os.path.dirname(__file__) or filename == "<frozen runpy>"


def own(filename, folder: str) -> bool:
    """True if the file *filename* is in *folder*, the script's folder."""
    return isinstance(filename, str) and filename.startswith(folder + os.sep)


def frames_of(error) -> list:
    """Return (file, line, function) of each frame of a traceback,
    the innermost last, without the runner's frames.
    """
    frames: list = []
    trace = error.__traceback__
    while trace is not None and len(frames) < 10_000:
        code = trace.tb_frame.f_code
        if not ours(code.co_filename):
            frames.append((code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    return frames


def describe(error) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be had)"
    return f"{type(error).__name__}: {text}"[:500]


def place_of(error, folder: str) -> str:
    """Return "FILE:LINE in FUNCTION" of the innermost frame in the script's folder,
    else of the innermost frame.
    """
    frames = frames_of(error)
    inside = [frame for frame in frames if own(frame[0], folder)] or frames
    if not inside:
        return ""
    name, line, function = inside[-1]
    short = os.path.relpath(name, folder) if own(name, folder) else os.path.basename(name)
    return f"{short}:{line} in {function}"


def cause_of(error, folder: str, raced: bool) -> tuple:
    """Return (cause, detail), such as ("module", "h5py"), if *error* may have a cause other than a
    race; else NO_CAUSE.

    *raced*: True if the script had started a thread or forked before *error*.
    """
    with contextlib.suppress(Exception):  # attributes and str() of an exception may raise anything
        return (
            _missing(error, folder)
            or _missing_file(error, folder, raced)
            or (NO_CAUSE if raced else _before_threads(error, folder))
        )
    return NO_CAUSE


def _missing(error, folder: str) -> tuple | None:
    """Return (cause, detail) if *error* says that a package,
    program or syntax is not available; else None.
    """
    if isinstance(error, ModuleNotFoundError) and error.name:
        missing = error.name.partition(".")[0]
        if missing not in sys.modules and importlib.machinery.PathFinder.find_spec(missing) is None:
            return "module", missing
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return _missing_program(error)
    if isinstance(error, SyntaxError) and error.filename and own(error.filename, folder):
        where = f"{os.path.relpath(error.filename, folder)}, line {error.lineno}"
        return "syntax", f"{where}: {(error.text or '').strip()[:100]}"
    return None


def _missing_program(error) -> tuple | None:
    name, frames = os.fsdecode(error.filename), frames_of(error)
    if frames and os.path.basename(frames[-1][0]) == "subprocess.py" and os.sep not in name:
        return "program", name
    return None


def _missing_file(error, folder: str, raced: bool) -> tuple | None:
    """Return ("file", path) if *error* says that a file is missing, and no thread can have deleted
    the file; else None.

    If *raced*, threads may have deleted files. Then only a missing folder counts, and the path is
    that of the folder.
    """
    if not (isinstance(error, FileNotFoundError) and error.filename is not None):
        return None
    path, end = os.path.abspath(os.fsdecode(error.filename)), ""
    if (
        os.path.exists(path)
        or not shown(path, folder)
        or (raced and os.path.exists(os.path.dirname(path)))
    ):
        return None
    while raced and not os.path.exists(os.path.dirname(path)):
        path, end = os.path.dirname(path), "/"
    return "file", shown(path, folder) + end


def shown(path: str, folder: str) -> str:
    """Return *path* as the script's author names it: relative to *folder*, the script's, if it is
    near; ~ is the home.

    Return "" for a path in the folder for temporary files.
    """
    scratch = os.path.dirname(folder)
    if own(path, scratch + "/tmp"):
        return ""
    if own(path, scratch + "/home"):
        return "~" + path.removeprefix(scratch + "/home")
    return os.path.relpath(path, folder) if own(path, scratch) else path


def _before_threads(error, folder: str) -> tuple:
    if isinstance(error, ImportError) and "attempted relative import" in str(error):
        return "relative", ""
    if isinstance(error, EOFError) and "EOF when reading a line" in str(error):
        return "stdin", ""
    if isinstance(error, PermissionError) and own(
        path := os.path.abspath(os.fsdecode(error.filename)), folder
    ):
        return "readonly", os.path.relpath(path, folder)
    frames = frames_of(error)
    place = frames[-1][0]
    if (
        isinstance(error, KeyError)
        and place in ("<frozen os>", os.__file__)
        and error.args[0] not in os.environ
    ):
        return "variable", error.args[0]
    if is_usage(error) and any(parser in place for parser in PARSERS):
        return "arguments", ""
    # The script ended itself, or a function did that it calls to check if it can run.
    inside = [(name, line) for name, line, _ in frames if own(name, folder)]
    return guard_of(*inside[-1], error) if inside else NO_CAUSE


def is_usage(error) -> bool:
    """True if a parser of arguments may have raised *error*.
    click exits with other numbers if a command fails.
    """
    return isinstance(error, SystemExit) and (error.code == 2 or isinstance(error.code, str))


def guard_of(path: str, line: int, error) -> tuple:
    """Return (cause, source of the test) if a guard at *line* of the file *path* raised *error*,
    else ("", "").

    A guard is a statement that ends the script on purpose, for example if the GIL is on or
    arguments are missing. A test of anything that the script computes is no guard, even if it also
    asks for the GIL: it may show the bug.
    """
    with open(path, "rb") as file:
        nodes = list(ast.walk(ast.parse(file.read())))
    facts = probes(nodes)
    for node in nodes:
        if not (getattr(node, "lineno", line + 1) <= line <= getattr(node, "end_lineno", line - 1)):
            continue
        if isinstance(node, ast.Assert) or (
            isinstance(node, ast.If) and ends(node, line, error, facts)
        ):
            text = source_of(node.test, facts)
        elif isinstance(node, ast.stmt) and not hasattr(node, "body") and wants(node, error, facts):
            return "arguments", ast.unparse(node)[:100]
        else:
            continue
        for cause, pattern in GUARDS.items():
            if re.search(pattern, text):
                return cause, ast.unparse(node.test)[:100]
    return NO_CAUSE


def probes(nodes: list) -> dict:
    """Return {name: source} for each name that is bound only once: to a fact about the interpreter,
    or a constant.

    For example, ``free_threaded = not sys._is_gil_enabled()``
    or a function that returns this expression.
    """
    bound = [
        getattr(node, "arg", None) or getattr(node, "id", "") for node in nodes if not loads(node)
    ]
    facts: dict = {}
    for node in nodes:
        value = getattr(node, "value", node)
        name = name_of(node)
        text = source_of(value, facts) if name else ""
        fact = any(re.search(pattern, text) for pattern in GUARDS.values())
        if (
            text
            and bound.count(name) < 2
            and (fact or isinstance(value, (ast.Constant, ast.Tuple)))
        ):
            facts[name] = text
    return facts


def name_of(node) -> str:
    """Return the name that the assignment or function *node* binds; "" for other nodes."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return node.name if isinstance(node, ast.FunctionDef) else ""


def loads(node) -> bool:
    return not isinstance(node, ast.arg) and not (
        isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )


def source_of(tree, facts) -> str:
    """Return the source of *tree*, then the sources of the *facts* that it names.
    *facts*: {name: source}.

    Return "" if *tree* uses a name that is neither in WORDS nor
    in *facts* nor bound in *tree* itself.
    """
    nodes = list(ast.walk(tree))
    used = {
        getattr(node, "attr", None) or getattr(node, "id", "") for node in nodes if loads(node)
    } - {""}
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and not loads(node)}
    if used - bound - WORDS - set(facts):
        return ""
    return " ".join([ast.unparse(tree), *(facts[name] for name in used if name in facts)])


def ends(node, line: int, error, facts) -> bool:
    """True if *error* was raised on purpose, by `raise` or a call like `sys.exit()` at *line*.

    The statement at *line* must be directly in a branch of the `if` statement *node*.
    """
    for statement in [*node.body, *node.orelse]:
        if statement.lineno <= line <= statement.end_lineno:
            call = (
                isinstance(error, SystemExit)
                and isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Call)
            )
            return isinstance(statement, ast.Raise) or (
                call and all(source_of(part, facts) for part in statement.value.args)
            )
    return False


def wants(node, error, facts) -> bool:
    """True if *node* raised *error* because ``sys.argv`` lacks an argument,
    or an argument is not a number.
    """
    if isinstance(error, ValueError):
        return "argv" in source_of(node, facts)
    missing = any(
        int(number) >= len(sys.argv) for number in re.findall(r"\bargv\[(\d+)\]", ast.unparse(node))
    )
    default = any(isinstance(child, (ast.IfExp, ast.BoolOp)) for child in ast.walk(node))
    return isinstance(error, IndexError) and missing and not default
