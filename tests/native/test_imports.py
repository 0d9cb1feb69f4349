"""Who may import whom, read from the source: the imports inside functions too."""

import ast
import itertools
import subprocess
import sys

import pytest

from tests.checkout import CHECKOUT

FOLDERS = {"ftloader": "loader", "ftbench": "bench", "ftsafety": "safety", "ftrun": "runtime", "native": "."}
MAY_USE = {
    "ftloader": set(),
    "ftrun": set(),
    "ftbench": {"ftloader", "ftrun"},
    "ftsafety": {"ftloader", "ftrun"},
    # To refuse typos before it builds; nothing but the standard library is there then.
    "native": {"ftbench.arguments", "ftsafety.repro.arguments"},
}
OUTSIDE = ("evaluation", "tests")
"""No package imports these."""
OLDEST = (3, 9)
"""The Python that ./twins starts with."""


def modules():
    """{dotted name: path} of every module of every package."""
    found = {}
    for package, folder in FOLDERS.items():
        top = CHECKOUT / folder
        for path in sorted((top / package).rglob("*.py")):
            parts = path.relative_to(top).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imported(name, inside_functions=True):
    """The modules of ours that a module imports anywhere in its source, or when it is imported itself."""
    path = MODULES[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        only_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if only_types or (isinstance(node, ast.FunctionDef) and not inside_functions):
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            candidates = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parts, *filter(None, [base])])
            # What is imported from a package may be a module of it or a name in its __init__.
            candidates = [f"{base}.{alias.name}" if f"{base}.{alias.name}" in MODULES else base for alias in node.names]
        else:
            continue
        found.update(each for each in candidates if each.partition(".")[0] in (*FOLDERS, *OUTSIDE))
    return found - {name}


GRAPH = {name: imported(name) for name in MODULES}


def circle(graph):
    """The modules of one circle, [] if there is none."""
    done, path = set(), []

    def visit(name):
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        path.append(name)
        for other in sorted(graph.get(name, ())):
            if found := visit(other):
                return found
        done.add(path.pop())
        return []

    return next(filter(None, map(visit, sorted(graph))), [])


@pytest.mark.parametrize("package", FOLDERS)
def test_a_package_imports_what_it_may(package):
    names = [name for name in MODULES if name.partition(".")[0] == package]
    assert names
    for name, other in itertools.chain.from_iterable(((n, o) for o in GRAPH[n]) for n in names):
        top = other.partition(".")[0]
        assert top == package or top in MAY_USE[package] or other in MAY_USE[package], f"{name} imports {other}"


EVALUATION = {f"{path.parent.name}/{path.name}": path for path in sorted((CHECKOUT / "evaluation").glob("*/*.py"))}


@pytest.mark.parametrize("program", EVALUATION)
def test_programs_of_evaluation_find_what_they_import(program):
    for node in ast.walk(ast.parse(EVALUATION[program].read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in FOLDERS:
            tree = ast.parse(MODULES[node.module].read_text())
            names = {name for each in tree.body for name in defined(each)}
            for alias in node.names:
                assert alias.name in names or f"{node.module}.{alias.name}" in MODULES, f"{node.module}.{alias.name}"


def defined(node):
    """The names that a statement of a module gives it."""
    if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {alias.asname or alias.name for alias in node.names}
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def test_no_circles():
    assert circle(GRAPH) == []


@pytest.mark.parametrize("package", FOLDERS)
def test_no_circles_of_rooms(package):
    """A room is a folder of a package; what lies beside the rooms is one by itself."""

    def room(name):
        parts = name.split(".")
        return ".".join(parts[:2])

    between = {}
    for name, others in GRAPH.items():
        if name.startswith(f"{package}."):
            between.setdefault(room(name), set()).update(
                room(other) for other in others if other.startswith(f"{package}.") and room(other) != room(name)
            )
    assert circle(between) == []


def test_a_circle_is_found():
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]


def test_what_twins_imports_is_understood_by_the_oldest_python():
    by_path = "ftsafety.audit.arguments"  # without its package
    waiting, seen = [by_path, *(name for name in MODULES if name.partition(".")[0] == "native")], set()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in MODULES:
            continue
        seen.add(name)
        ast.parse(MODULES[name].read_text(), str(MODULES[name]), feature_version=OLDEST)
        # ./twins calls functions of its own; of what else it imports it reads the arguments.
        waiting += imported(name, name.startswith("native"))
        if name != by_path:
            waiting.append(name.rpartition(".")[0])
    assert "ftbench.scenarios.pillow" in seen


@pytest.mark.parametrize("module", ["ftbench.arguments", "ftsafety.audit.arguments", "ftsafety.repro.arguments"])
def test_arguments_need_the_standard_library_alone(module):
    paths = [str(CHECKOUT / folder) for folder in FOLDERS.values()]
    code = f"import sys; sys.path += {paths!r}; import {module}"
    # -S: without site-packages.
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, timeout=60)
