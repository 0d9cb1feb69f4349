"""Which module may import which, read from the source:
imports inside functions and of types only count too.
"""

import ast
import graphlib
import re
import subprocess
import sys
from collections import defaultdict

import pytest

from tests.checkout import CHECKOUT

FOLDERS = {
    "ftloader": "loader",
    "ftbench": "bench",
    "ftsafety": "safety",
    "ftrun": "runtime",
    "native": ".",
}
# `native` imports them to refuse typos before it builds,
# when there is nothing but the standard library.
ARGUMENTS = {"ftbench.arguments", "ftsafety.audit.arguments", "ftsafety.repro.arguments"}
MAY_USE = {
    "ftloader": set(),
    "ftrun": set(),
    "ftbench": {"ftloader", "ftrun"},
    "ftsafety": {"ftloader", "ftrun"},
    "native": ARGUMENTS,
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
SCENARIOS = {name for name in MODULES if name.startswith("ftbench.scenarios.")}
BY_NAME = {"native.cli": ARGUMENTS, "ftbench.scenarios": SCENARIOS}
"""Modules that are imported by name, with importlib."""


def imported(name, inside_functions=True):
    """The modules of ours that a module imports anywhere in its source,
    or only when it is imported itself.
    """
    path = MODULES[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    tree = ast.parse(path.read_text())
    if not inside_functions:
        for node in ast.walk(tree):
            only_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            if only_types or isinstance(node, ast.FunctionDef):
                node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            candidates = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parts, *filter(None, [base])])
            # `from package import name` imports a module of the package or a name in its __init__.
            candidates = [
                f"{base}.{alias.name}" if f"{base}.{alias.name}" in MODULES else base
                for alias in node.names
            ]
        else:
            continue
        found.update(each for each in candidates if each.partition(".")[0] in (*FOLDERS, *OUTSIDE))
    return (found | BY_NAME.get(name, set())) - {name}


GRAPH = {name: imported(name) for name in MODULES}


def room(name):
    """The file or folder directly below a package that a module belongs to."""
    return ".".join(name.split(".")[:2])


def arrows(package):
    """{(room, other room): [imports]} within a package."""
    found = defaultdict(list)
    for name, others in GRAPH.items():
        for other in others:
            if {name.split(".")[0], other.split(".")[0]} == {package} and room(name) != room(other):
                found[room(name), room(other)].append(f"{name} imports {other}")
    return found


def test_a_package_imports_what_it_may():
    forbidden = []
    for name, others in GRAPH.items():
        package = name.partition(".")[0]
        for other in others:
            top = other.partition(".")[0]
            if top != package and not {top, other} & MAY_USE[package]:
                forbidden.append(f"{name} imports {other}")
    assert not forbidden, "\n".join(sorted(forbidden))


def test_native_checks_arguments_with_the_modules_that_this_test_knows():
    assert (
        set(re.findall(r'"(ft\w+(?:\.\w+)*\.arguments)"', MODULES["native.cli"].read_text()))
        == ARGUMENTS
    )


EVALUATION = {
    f"{path.parent.name}/{path.name}": path
    for path in sorted((CHECKOUT / "evaluation").glob("*/*.py"))
}


@pytest.mark.parametrize("program", EVALUATION)
def test_programs_of_evaluation_find_what_they_import(program):
    for node in ast.walk(ast.parse(EVALUATION[program].read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in FOLDERS:
            tree = ast.parse(MODULES[node.module].read_text())
            names = {name for each in tree.body for name in defined(each)}
            for alias in node.names:
                assert alias.name in names or f"{node.module}.{alias.name}" in MODULES, (
                    f"{node.module}.{alias.name}"
                )


def defined(node):
    """The names that a statement of a module gives it."""
    if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {alias.asname or alias.name for alias in node.names}
    return {
        each.id
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }


def test_no_circles():
    graphlib.TopologicalSorter(GRAPH).prepare()  # else graphlib.CycleError names one


@pytest.mark.parametrize("package", FOLDERS)
def test_no_circles_of_rooms(package):
    graph = defaultdict(set)
    for one, other in arrows(package):
        graph[one].add(other)
    graphlib.TopologicalSorter(graph).prepare()


def test_no_room_of_ftloader_imports_one_above_it():
    # ftloader/__init__.py says the order.
    text = " ".join(ast.get_docstring(ast.parse(MODULES["ftloader"].read_text())).split())
    lines = re.search(r"each of which imports only those after it: ([^.]*)\.", text)[1].split(";")
    level = {
        name: number
        for number, line in enumerate(lines)
        for name in re.split(r", | and ", line.strip())
    }
    rooms = {name.split(".")[1] for name in MODULES if name.startswith("ftloader.")}
    found = [f"{name} is not in the order" for name in sorted(rooms - level.keys())]
    for (one, other), imports in arrows("ftloader").items():
        # The package itself may import every room, and no room the package.
        above = level.get(one.partition(".")[2], -1)
        if above >= level.get(other.partition(".")[2], -1):
            found += imports
    assert not found, "\n".join(sorted(found))


def test_ftloader_is_small_at_the_top():
    rooms = {room(name) for name in MODULES if name.startswith("ftloader.")}
    # Below all rooms are the package's errors and its locks.
    lowest = ("ftloader.errors", "ftloader.fork")
    connections = [pair for pair in arrows("ftloader") if pair[1] not in lowest]
    assert len(rooms) <= 18 and len(connections) <= 46, (sorted(rooms), len(connections))


def test_modules_that_twins_imports_are_understood_by_the_oldest_python():
    waiting, seen = [*(name for name in MODULES if name.partition(".")[0] == "native")], set()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in MODULES:
            continue
        seen.add(name)
        ast.parse(MODULES[name].read_text(), str(MODULES[name]), feature_version=OLDEST)
        waiting += (
            GRAPH[name] if name.startswith("native") else imported(name, inside_functions=False)
        )
        waiting.append(name.rpartition(".")[0])
    assert {"ftbench.scenarios.pillow", *ARGUMENTS} <= seen


@pytest.mark.parametrize("module", sorted(ARGUMENTS))
@pytest.mark.slow
def test_arguments_need_the_standard_library_alone(module):
    paths = [str(CHECKOUT / folder) for folder in FOLDERS.values()]
    code = f"import sys; sys.path += {paths!r}; import {module}"
    # -S: without site-packages.
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)
