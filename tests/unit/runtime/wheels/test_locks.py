"""The packages of lock files, as uv, Poetry and `pip lock` write them."""

import tomllib

import pytest
from packaging.requirements import Requirement

from ftrun.wheels.locks import packages
from ftrun.wheels.package import Package

UV = """
version = 1
[[package]]
name = "mine"
version = "0.1"
source = { editable = "." }
dependencies = [
    { name = "Num_Py" },
    { name = "colorama", marker = "sys_platform == 'win32'" },
    { name = "forked" },
    { name = "patched" },
]
[package.dev-dependencies]
test = [{ name = "tester" }]
[[package]]
name = "num-py"
version = "2.4.6"
source = { registry = "https://example.org/simple" }
sdist = { url = "https://example.org/num.tar.gz", hash = "sha256:AA", size = 3 }
wheels = [{ url = "https://example.org/num.whl", hash = "sha256:bb", size = 3 }]
dependencies = [{ name = "below", marker = "python_version < '3.14'" }]
[[package]]
name = "colorama"
version = "0.4"
source = { registry = "https://example.org/simple" }
[[package]]
name = "below"
version = "1"
source = { registry = "https://example.org/simple" }
[[package]]
name = "forked"
version = "1"
source = { registry = "https://example.org/simple" }
resolution-markers = ["python_version < '3.14'", "sys_platform == 'win32'"]
[[package]]
name = "patched"
version = "2.1"
source = { git = "https://example.org/patched?rev=main#00ff" }
[[package]]
name = "tester"
version = "5"
source = { registry = "https://example.org/simple" }
dependencies = [{ name = "tester" }]
[[package]]
name = "vendored"
version = "1"
source = { directory = "vendored" }
"""

POETRY = """
[[package]]
name = "numpy"
version = "2.4.6"
files = [{file = "numpy.whl", hash = "sha256:bb"}, {file = "numpy.tar.gz", hash = "sha256:cc"}]
[package.dependencies]
below = {version = "*", markers = "python_version < '3.14'"}
[[package]]
name = "below"
version = "1"
markers = {main = "sys_platform == 'linux'", dev = "sys_platform == 'darwin'"}
files = []
[package.source]
type = "legacy"
url = "https://example.org/simple"
reference = "mirror"
[[package]]
name = "patched"
version = "2"
files = []
[package.source]
type = "git"
url = "https://example.org/patched"
[[package]]
name = "fetched"
version = "2"
files = []
[package.source]
type = "url"
url = "https://example.org/fetched.whl"
[metadata]
lock-version = "2.1"
"""

PYLOCK = """
lock-version = "1.0"
[[packages]]
name = "numpy"
version = "2.4.6"
marker = "sys_platform == 'linux'"
wheels = [{ name = "numpy.whl", hashes = { sha256 = "BB" } }]
[[packages]]
name = "here"
directory = { path = "." }
[[packages]]
name = "fetched"
archive = { url = "https://example.org/fetched.whl", hashes = { sha256 = "cc" } }
[[packages]]
name = "patched"
version = "2"
vcs = { type = "git", url = "https://example.org/patched" }
"""

REASON = "comes from {}; only packages of an index can be judged"
INDEXES = ("https://pypi.org/simple", "https://example.org/simple")
GIT, ADDRESS, MACHINE = map(REASON.format, ("a repository", "an address", "this machine"))


OTHER_INDEX = "comes from another index; UV_DEFAULT_INDEX names the one to look at"


def locked(requirement, *values, needed_by=()):
    return Package(
        Requirement(requirement), frozenset(f"sha256:{value}" for value in values), needed_by
    )


@pytest.mark.parametrize(
    ("lock", "expected", "reasons"),
    [
        (
            UV,
            [
                locked("num-py==2.4.6", "aa", "bb"),
                locked("colorama==0.4; sys_platform == 'win32'"),
                locked("below==1; python_version < '3.14'", needed_by=("num-py",)),
                locked("forked==1; python_version < '3.14' or sys_platform == 'win32'"),
                locked("tester==5"),
            ],
            {"patched": GIT, "vendored": MACHINE},
        ),
        (
            POETRY,
            [
                locked("numpy==2.4.6", "bb", "cc"),
                locked(
                    "below==1; sys_platform == 'linux' or sys_platform == 'darwin'",
                    needed_by=("numpy",),
                ),
            ],
            {"patched": GIT, "fetched": ADDRESS},
        ),
        (
            PYLOCK,
            [locked("numpy==2.4.6; sys_platform == 'linux'", "bb")],
            {"here": MACHINE, "fetched": ADDRESS, "patched": GIT},
        ),
    ],
    ids=["uv", "poetry", "pylock"],
)
def test_locks(lock, expected, reasons):
    read, others = packages(tomllib.loads(lock), INDEXES)
    assert [(str(package.requirement), package) for package in read] == [
        (str(e.requirement), e) for e in expected
    ]
    assert others == reasons


def test_a_package_of_another_index_is_not_judged_by_its_namesake():
    uv = UV.replace('version = "1"\nsource = { registry = "https://example.org/simple" }', PRIVATE)
    _, reasons = packages(tomllib.loads(uv), INDEXES)
    assert reasons["below"] == reasons["forked"] == OTHER_INDEX
    poetry = POETRY.replace("https://example.org/simple", "https://internal.example/simple/")
    assert packages(tomllib.loads(poetry), INDEXES)[1]["below"]


PRIVATE = 'version = "1"\nsource = { registry = "https://internal.example/simple" }'


def requirements(lock):
    return [str(package.requirement) for package in packages(tomllib.loads(lock), INDEXES)[0]]


def test_no_condition_of_an_edge_hides_a_package():
    """Poetry does not write what the project itself needs;
    uv names conflicting extras in a way of its own.
    """
    poetry = POETRY.replace("python_version < '3.14'", "extra == 'standard'")
    assert any(
        text.startswith(("below==1; (sys", "below==1; sys")) for text in requirements(poetry)
    )
    uv = UV.replace("sys_platform == 'win32'\" },", "extra == 'extra-4-mine-cpu'\" },")
    assert "colorama==0.4" in requirements(uv)
