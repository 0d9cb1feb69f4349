"""Requirements from files and arguments."""

import os

import pytest

from ftrun.errors import BadRequirements
from ftrun.wheels.requirements import read

FILES = {
    "requirements.txt": """
# comment
numpy>=2 ; python_version > "3.8"   # why
-r more/base.txt
--index-url https://example.org/simple
pillow==12.2.0 \\
    --hash=sha256:0000 \\
    --hash=sha256:1111
torch @ https://example.org/torch.whl
""",
    "more/base.txt": "requests[socks]\nnumpy>=2; python_version > '3.8'\n",
    "pyproject.toml": """
[project]
dependencies = ["numpy", "pandas>2"]
[project.optional-dependencies]
extra = ["h5py"]
[dependency-groups]
test = ["pytest", {include-group = "other"}]
""",
    "requirements.lock": "numpy==2.4.6 \\\n    --hash=sha256:00\npillow==12.2.0\n",
    "environment.yml": """
name: ml
channels: [conda-forge]
dependencies:
  - python=3.13
  - scipy>=1
  - python-lmdb
  - pip
  - pip:
      - msgpack   # why
      - python-blosc
      - "pyyaml>=6"
      - -r more/base.txt
prefix: /opt
""",
}


def names(contents):
    locked = [package.requirement for package in contents.locked]
    return sorted(str(requirement) for requirement in (*contents.requirements.values(), *locked))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["numpy", "msgpack >= 1"], ["numpy", "msgpack>=1"]),
        (["numpy", "numpy"], ["numpy"]),
        (["numpy>=2", "NumPy<2.3"], ["NumPy<2.3,>=2"]),
        (["pkg[a]", "pkg[b]>1"], ["pkg[a,b]>1"]),
        (
            ["requirements.txt"],
            ['numpy>=2; python_version > "3.8"', "requests[socks]", "pillow==12.2.0"],
        ),
        (["pyproject.toml"], ["numpy", "pandas>2", "h5py", "pytest"]),
        (["."], ["numpy", "pandas>2", "h5py", "pytest"]),
        (["requirements.lock", "scipy"], ["numpy==2.4.6", "pillow==12.2.0", "scipy"]),
        (
            ["environment.yml"],
            [
                "msgpack",
                "python-blosc",
                "pyyaml>=6",
                "requests[socks]",
                'numpy>=2; python_version > "3.8"',
            ],
        ),
    ],
)
def test_read(arguments, expected, folder):
    assert names(read(arguments)) == sorted(expected)


def test_what_is_not_on_an_index_is_named_with_the_reason(folder):
    (folder / "mixed.txt").write_text(
        """
numpy
git+https://example.org/a.git@main#egg=a
https://example.org/b-1.whl
c @ git+https://example.org/c
./absent
-e .
=== nonsense
d; python_version > "3
"""
    )
    contents = read(["mixed.txt", "environment.yml"])
    assert {"numpy", "pandas>2"} <= set(names(contents)) and "h5py" not in names(contents)
    reasons = {
        "git+https://example.org/a.git@main#egg=a": "comes from a repository",
        "https://example.org/b-1.whl": "comes from an address",
        "c": "comes from an address",
        "./absent": "comes from this machine",
        "mixed.txt, requirement 7: '=== nonsense'": "is no requirement",
        "mixed.txt, requirement 8: 'd; python_version > \"3'": "is no requirement",
        "scipy>=1": "comes from conda",
        "python-lmdb": "comes from conda",
    }
    assert {
        name: contents.not_judged[name].partition(";")[0].partition(" (")[0] for name in reasons
    } == reasons
    assert contents.not_judged.keys() == reasons.keys()


def test_a_local_project_brings_the_extras_that_are_named(folder):
    (folder / "a.txt").write_text("-e .[extra]\n")
    assert names(read(["a.txt"])) == ["h5py", "numpy", "pandas>2"]


def test_constraints_are_no_requirements(folder):
    (folder / "a.txt").write_text("numpy\n-c more/limits.txt\n-c https://example.org/limits.txt\n")
    (folder / "more/limits.txt").write_text(
        "numpy<2.4  # why\n-c limits.txt\nscipy==1.17.0 --hash=sha256:00\n"
    )
    contents = read(["a.txt"])
    assert names(contents) == ["numpy"]
    assert sorted(map(str, contents.constraints)) == ["numpy<2.4", "scipy==1.17.0"]
    assert contents.not_judged.keys() == {
        "more/limits.txt, constraint 2: '-c limits.txt'",
        "https://example.org/limits.txt",
    }


def test_a_project_that_names_itself_or_nothing(folder):
    (folder / "pyproject.toml").write_text(
        """
[project]
name = "Acme.x"
dynamic = ["dependencies"]
[project.optional-dependencies]
a = ["numpy"]
all = ["acme-x[a]"]
[tool.poetry.dependencies]
scipy = "*"
"""
    )
    contents = read(["."])
    assert names(contents) == ["numpy"]
    assert [reason.split()[0] for reason in contents.not_judged.values()] == ["are", "is"]


@pytest.mark.parametrize(
    "data",
    [
        "\ufeffnumpy>=2\r\npillow\r\n".encode(),
        "numpy>=2\npillow\n".encode("utf-16"),
        "numpy>=2  # für\npillow\n".encode("latin-1"),
        "# -*- coding: cp1252 -*-\nnumpy>=2  # “why”\npillow\n".encode("cp1252"),
        b"# coding: unheard-of\nnumpy>=2\npillow\n",
    ],
    ids=["mark", "utf-16", "latin-1", "cp1252", "unknown"],
)
def test_the_encodings_that_pip_reads(data, folder):
    (folder / "a.txt").write_bytes(data)
    assert names(read(["a.txt"])) == ["numpy>=2", "pillow"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "-r a.txt\n", "includes itself"),
        ("a.txt", "-r absent.txt\n", "absent.txt"),
        ("a.txt", b"PK\0\1", "no text"),
        ("pyproject.toml", "[project\n", "no TOML"),
        ("pyproject.toml", "x = " + "9" * 5_000, "no TOML"),
        ("pyproject.toml", "[project]\ndependencies = 3\n", "no pyproject.toml and no lock"),
        ("pyproject.toml", "[tool.black]\n", "names no dependencies"),
        ("uv.lock", "version = 1\npackage = [3]\n", "no pyproject.toml and no lock"),
        ("a.txt", "# nothing\n", "names no package"),
        ("compose.yml", "services: {}\n", "names no package"),
    ],
)
def test_bad_files(name, text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(BadRequirements, match=message):
        read([name])


@pytest.mark.parametrize("argument", ["no name!", "pkg; os_name == 'a\nb'"])
def test_a_bad_argument(argument):
    with pytest.raises(BadRequirements, match="no requirement|no requirement has"):
        read([argument])


def test_a_lock_has_hashes(tmp_path):
    (tmp_path / "requirements.lock").write_text(
        "numpy==2 \\\n    --hash=sha256:00FF \\\n    --hash=sha256:11  # two wheels\n"
        "scipy==1  # --hash=sha256:22\n"
    )
    contents = read([str(tmp_path / "requirements.lock")])
    (locked,) = contents.locked
    assert (locked.requirement.name, locked.hashes) == ("numpy", {"sha256:00ff", "sha256:11"})
    assert names(contents) == ["numpy==2", "scipy==1"]


@pytest.mark.timeout(60)
def test_files_that_include_the_next_one_twice_are_read_once(tmp_path):
    for number in range(40):
        (tmp_path / f"{number}.txt").write_text(f"-r {number + 1}.txt\n" * 2)
    (tmp_path / "40.txt").write_text("numpy\n")
    assert names(read([str(tmp_path / "0.txt")])) == ["numpy"]


def test_what_is_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("a.txt")
    for argument, message in (
        ("a.txt", "is no file"),
        ("b.txt", "is no file"),
        ("not a name!", "a file must exist"),
    ):
        with pytest.raises(BadRequirements, match=message):
            read([argument])
