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
# Messages of Python that tell a cause.
MESSAGES = (
    (ImportError, "attempted relative import", "relative"),
    (EOFError, "EOF when reading a line", "stdin"),
)
NO_CAUSE = "", ""


def ours(filename: str) -> bool:
    if filename == "<frozen runpy>":
        return True
    return os.path.dirname(filename) == os.path.dirname(__file__)


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
    inside = inside_of(frames, folder) or frames
    if not inside:
        return ""
    name, line, function = inside[-1]
    short = os.path.basename(name)
    if own(name, folder):
        short = os.path.relpath(name, folder)
    return f"{short}:{line} in {function}"


def inside_of(frames: list, folder: str) -> list:
    """Return those of *frames* (see frames_of) whose file is in *folder*."""
    return [frame for frame in frames if own(frame[0], folder)]


def cause_of(error, folder: str, raced: bool) -> tuple:
    """Return (cause, detail), such as ("module", "h5py"), if *error* may have a cause other than a
    race; else NO_CAUSE.

    *raced*: True if the script had started a thread or forked before *error*.
    """
    with contextlib.suppress(Exception):  # attributes and str() of an exception may raise anything
        cause = _missing(error, folder, raced)
        if cause is None and not raced:
            cause = _before_threads(error, folder) or _guard(error, folder)
        return cause or NO_CAUSE
    return NO_CAUSE


def _missing(error, folder: str, raced: bool) -> tuple | None:
    """Return (cause, detail) if *error* says that a package,
    program, file or syntax is not available; else None.
    """
    if isinstance(error, ModuleNotFoundError) and error.name:
        return _missing_module(error.name.partition(".")[0])
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return _missing_program(error) or _missing_file(error, folder, raced)
    if isinstance(error, SyntaxError) and error.filename and own(error.filename, folder):
        file = os.path.relpath(error.filename, folder)
        text = (error.text or "").strip()
        return "syntax", f"{file}, line {error.lineno}: {text[:100]}"
    return None


def _missing_module(name: str) -> tuple | None:
    find = importlib.machinery.PathFinder.find_spec
    if name in sys.modules or find(name) is not None:
        return None
    return "module", name


def _missing_program(error) -> tuple | None:
    name = os.fsdecode(error.filename)
    frames = frames_of(error)
    if not frames or os.sep in name:
        return None
    innermost, _, _ = frames[-1]
    if os.path.basename(innermost) != "subprocess.py":
        return None
    return "program", name


def _missing_file(error, folder: str, raced: bool) -> tuple | None:
    """Return ("file", path) if *error* says that a file is missing, and no thread can have deleted
    the file; else None.

    If *raced*, threads may have deleted files. Then only a missing folder counts, and the path is
    that of the folder.
    """
    path = os.path.abspath(os.fsdecode(error.filename))
    if os.path.exists(path) or not shown(path, folder):
        return None
    if not raced:
        return "file", shown(path, folder)
    missing = ""
    while not os.path.exists(os.path.dirname(path)):
        path = os.path.dirname(path)
        missing = shown(path, folder) + "/"
    return ("file", missing) if missing else None


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
    if own(path, scratch):
        return os.path.relpath(path, folder)
    return path


def _before_threads(error, folder: str) -> tuple | None:
    for kind, words, cause in MESSAGES:
        if isinstance(error, kind) and words in str(error):
            return cause, ""
    if isinstance(error, PermissionError):
        return _read_only(os.path.abspath(os.fsdecode(error.filename)), folder)
    place = frames_of(error)[-1][0]
    if isinstance(error, KeyError) and place in ("<frozen os>", os.__file__):
        return _missing_variable(error.args[0])
    if is_usage(error) and is_parser(place):
        return "arguments", ""
    return None


def _read_only(path: str, folder: str) -> tuple | None:
    if not own(path, folder):
        return None
    return "readonly", os.path.relpath(path, folder)


def _missing_variable(name) -> tuple | None:
    return None if name in os.environ else ("variable", name)


def _guard(error, folder: str) -> tuple | None:
    """Return (cause, source of the test) if the script ended itself,
    or a function did that it calls to check if it can run; else None.
    """
    inside = inside_of(frames_of(error), folder)
    if not inside:
        return None
    name, line, _ = inside[-1]
    return guard_of(name, line, error)


def is_parser(filename: str) -> bool:
    """True if the file *filename* parses arguments."""
    return any(parser in filename for parser in PARSERS)


def is_usage(error) -> bool:
    """True if a parser of arguments may have raised *error*.
    click exits with other numbers if a command fails.
    """
    if not isinstance(error, SystemExit):
        return False
    return error.code == 2 or isinstance(error.code, str)


def guard_of(path: str, line: int, error) -> tuple:
    """Return (cause, source of the test) if a guard at *line* of the file *path* raised *error*,
    else ("", "").

    A guard is a statement that ends the script on purpose, for example if the GIL is on or
    arguments are missing. A test of anything that the script computes is no guard, even if it also
    asks for the GIL: it may show the bug.
    """
    with open(path, "rb") as file:
        tree = ast.parse(file.read())
    nodes: list = list(ast.walk(tree))
    facts = probes(nodes)
    for node in nodes:
        if not is_at(node, line):
            continue
        if is_guard(node, line, error, facts):
            cause = subject_of(source_of(node.test, facts))
            if cause:
                return cause, ast.unparse(node.test)[:100]
        elif is_simple(node) and wants(node, error, facts):
            return "arguments", ast.unparse(node)[:100]
    return NO_CAUSE


def is_at(node, line: int) -> bool:
    """True if *line* is one of the lines of *node*."""
    return hasattr(node, "lineno") and node.lineno <= line <= node.end_lineno


def is_simple(node) -> bool:
    """True for a statement that holds no other statements."""
    return isinstance(node, ast.stmt) and not hasattr(node, "body")


def is_guard(node, line: int, error, facts) -> bool:
    """True if *node* is a test that raised *error* at *line* on purpose."""
    if isinstance(node, ast.If):
        return ends(node, line, error, facts)
    return isinstance(node, ast.Assert)


def subject_of(text: str) -> str:
    """Return the cause in GUARDS that the source *text* asks for; "" if it asks for none."""
    for cause, pattern in GUARDS.items():
        if re.search(pattern, text):
            return cause
    return ""


def probes(nodes: list) -> dict:
    """Return {name: source} for each name that is bound only once: to a fact about the interpreter,
    or a constant.

    For example, ``free_threaded = not sys._is_gil_enabled()``
    or a function that returns this expression.
    """
    bound = list(map(bound_name, nodes))
    facts: dict = {}
    for node in nodes:
        name = name_of(node)
        if not name or bound.count(name) > 1:
            continue
        value = getattr(node, "value", node)
        text = source_of(value, facts)
        constant = isinstance(value, (ast.Constant, ast.Tuple))
        if text and (constant or subject_of(text)):
            facts[name] = text
    return facts


def name_of(node) -> str:
    """Return the name that the assignment or function *node* binds; "" for other nodes."""
    if isinstance(node, ast.Assign):
        return assigned_name(node.targets[0])
    return node.name if isinstance(node, ast.FunctionDef) else ""


def bound_name(node) -> str:
    """Return the name of the variable or parameter that *node* itself binds; "" for other nodes."""
    return node.arg if isinstance(node, ast.arg) else assigned_name(node)


def assigned_name(node) -> str:
    """Return the name of the variable that *node* itself binds; "" for other nodes."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    return ""


def used_name(node) -> str:
    """Return the name or attribute that *node* itself reads or deletes; "" for other nodes."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
        return node.id
    return ""


def source_of(tree, facts) -> str:
    """Return the source of *tree*, then the sources of the *facts* that it names.
    *facts*: {name: source}.

    Return "" if *tree* uses a name that is neither in WORDS nor
    in *facts* nor bound in *tree* itself.
    """
    nodes = list(ast.walk(tree))
    used = set(map(used_name, nodes)) - {""}
    bound = set(map(assigned_name, nodes))
    if used - bound - WORDS - set(facts):
        return ""
    sources = [facts[name] for name in used if name in facts]
    return " ".join([ast.unparse(tree), *sources])


def ends(node, line: int, error, facts) -> bool:
    """True if *error* was raised on purpose, by `raise` or a call like `sys.exit()` at *line*.

    The statement at *line* must be directly in a branch of the `if` statement *node*.
    """
    for statement in [*node.body, *node.orelse]:
        if is_at(statement, line):
            if isinstance(statement, ast.Raise):
                return True
            return isinstance(error, SystemExit) and is_plain_call(statement, facts)
    return False


def is_plain_call(statement, facts) -> bool:
    """True for a call whose arguments depend on *facts* alone."""
    call = getattr(statement, "value", None)
    if not isinstance(statement, ast.Expr) or not isinstance(call, ast.Call):
        return False
    return all(source_of(part, facts) for part in call.args)


def wants(node, error, facts) -> bool:
    """True if *node* raised *error* because ``sys.argv`` lacks an argument,
    or an argument is not a number.
    """
    if isinstance(error, ValueError):
        return "argv" in source_of(node, facts)
    if not isinstance(error, IndexError) or has_default(node):
        return False
    numbers = re.findall(r"\bargv\[(\d+)\]", ast.unparse(node))
    largest = max(map(int, numbers), default=-1)
    return largest >= len(sys.argv)


def has_default(node) -> bool:
    """True if *node* holds an alternative, such as ``int(argv[1]) if argv[1:] else 8``."""
    for child in ast.walk(node):
        if isinstance(child, (ast.IfExp, ast.BoolOp)):
            return True
    return False
