"""The packages of lock files, as uv, Poetry and `pip lock` write them."""

import tomllib

import pytest

from ftrun.wheels.locks import Locked, packages

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
BELOW = "((sys_platform == 'linux') or (sys_platform == 'darwin'))"
INDEXES = ("https://pypi.org/simple", "https://example.org/simple")
GIT, ADDRESS, MACHINE = map(REASON.format, ("a repository", "an address", "this machine"))


OTHER_INDEX = "comes from another index; UV_DEFAULT_INDEX names the one to look at"


def hashes(*values):
    return frozenset(f"sha256:{value}" for value in values)


@pytest.mark.parametrize(
    ("lock", "expected"),
    [
        (
            UV,
            [
                Locked("num-py==2.4.6", hashes("aa", "bb"), (), ""),
                Locked("colorama==0.4; ((sys_platform == 'win32'))", hashes(), (), ""),
                Locked("below==1; ((python_version < '3.14'))", hashes(), ("num-py",), ""),
                Locked("forked==1; ((python_version < '3.14') or (sys_platform == 'win32'))", hashes(), (), ""),
                Locked("patched", hashes(), (), GIT),
                Locked("tester==5", hashes(), (), ""),
                Locked("vendored", hashes(), (), MACHINE),
            ],
        ),
        (
            POETRY,
            [
                Locked("numpy==2.4.6", hashes("bb", "cc"), (), ""),
                Locked(f"below==1; {BELOW}", hashes(), ("numpy",), ""),
                Locked("patched", hashes(), (), GIT),
                Locked("fetched", hashes(), (), ADDRESS),
            ],
        ),
        (
            PYLOCK,
            [
                Locked("numpy==2.4.6; (sys_platform == 'linux')", hashes("bb"), (), ""),
                Locked("here", hashes(), (), MACHINE),
                Locked("fetched", hashes(), (), ADDRESS),
                Locked("patched", hashes(), (), GIT),
            ],
        ),
    ],
    ids=["uv", "poetry", "pylock"],
)
def test_locks(lock, expected):
    assert list(packages(tomllib.loads(lock), INDEXES)) == expected


def test_a_package_of_another_index_is_not_judged_by_its_namesake():
    uv = UV.replace('version = "1"\nsource = { registry = "https://example.org/simple" }', PRIVATE)
    by_name = {package.requirement: package.reason for package in packages(tomllib.loads(uv), INDEXES)}
    assert by_name["below"] == by_name["forked"] == OTHER_INDEX
    poetry = POETRY.replace("https://example.org/simple", "https://internal.example/simple/")
    assert {package.requirement: package.reason for package in packages(tomllib.loads(poetry), INDEXES)}["below"]


PRIVATE = 'version = "1"\nsource = { registry = "https://internal.example/simple" }'


def test_no_condition_of_an_edge_hides_a_package():
    """Poetry does not write what the project itself needs; uv names conflicting extras in a way of its own."""
    poetry = POETRY.replace("python_version < '3.14'", "extra == 'standard'")
    assert any(
        package.requirement.startswith("below==1; ((sys") for package in packages(tomllib.loads(poetry), INDEXES)
    )
    uv = UV.replace("sys_platform == 'win32'\" },", "extra == 'extra-4-mine-cpu'\" },")
    assert any(package.requirement == "colorama==0.4" for package in packages(tomllib.loads(uv), INDEXES))
