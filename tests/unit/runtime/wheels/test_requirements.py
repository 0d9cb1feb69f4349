"""Requirements from files and arguments."""

import os

import pytest

from ftrun.wheels.requirements import BadRequirements, read

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
    "uv.lock": """
version = 1
[[package]]
name = "mine"
version = "0.1"
source = { editable = "." }
[[package]]
name = "numpy"
version = "2.4.6"
source = { registry = "https://example.org/simple" }
""",
    "pylock.toml": """
lock-version = "1.0"
[[packages]]
name = "numpy"
version = "2.4.6"
[[packages]]
name = "here"
""",
    "requirements.lock": "numpy==2.4.6 \\\n    --hash=sha256:00\npillow==12.2.0\n",
}


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["numpy", "msgpack >= 1"], ["numpy", "msgpack>=1"]),
        (["numpy", "numpy"], ["numpy"]),
        (
            ["requirements.txt"],
            [
                'numpy>=2; python_version > "3.8"',
                "requests[socks]",
                "pillow==12.2.0",
                "torch@ https://example.org/torch.whl",
            ],
        ),
        (["pyproject.toml"], ["numpy", "pandas>2", "h5py", "pytest"]),
        (["."], ["numpy", "pandas>2", "h5py", "pytest"]),
        (["uv.lock"], ["numpy==2.4.6"]),
        (["pylock.toml"], ["numpy==2.4.6"]),
        (["requirements.lock", "scipy"], ["numpy==2.4.6", "pillow==12.2.0", "scipy"]),
    ],
)
def test_read(arguments, found, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert sorted(str(each).replace(" @", "@") for each in read(arguments)) == sorted(found)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "numpy\n=== nonsense\n", r"a.txt, requirement 2: '=== nonsense' is no requirement"),
        ("a.txt", "-r a.txt\n", "includes itself"),
        ("a.txt", "-r absent.txt\n", "absent.txt"),
        ("a.txt", b"\xff\xfe", "no UTF-8"),
        ("pyproject.toml", "[project\n", "no TOML"),
        ("pyproject.toml", "x = " + "9" * 5_000, "no TOML"),
        ("pyproject.toml", "[project]\ndependencies = 3\n", "no pyproject.toml and no lock"),
        ("pyproject.toml", "[tool.black]\n", "names no dependencies"),
        ("uv.lock", "version = 1\npackage = [3]\n", "no pyproject.toml and no lock"),
    ],
)
def test_bad_files(name, text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(BadRequirements, match=message):
        read([name])


def test_a_lock_has_hashes(tmp_path):
    (tmp_path / "requirements.lock").write_text(
        "numpy==2 \\\n    --hash=sha256:00FF \\\n    --hash=sha256:11  # two wheels\nscipy==1  # --hash=sha256:22\n"
    )
    found = read([str(tmp_path / "requirements.lock")])
    assert {each.name: hashes for each, hashes in found.items()} == {
        "numpy": {"sha256:00ff", "sha256:11"},
        "scipy": frozenset(),
    }


@pytest.mark.timeout(60)
def test_files_that_include_the_next_one_twice_are_read_once(tmp_path):
    for number in range(40):
        (tmp_path / f"{number}.txt").write_text(f"-r {number + 1}.txt\n" * 2)
    (tmp_path / "40.txt").write_text("numpy\n")
    assert [each.name for each in read([str(tmp_path / "0.txt")])] == ["numpy"]


def test_what_is_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("a.txt")
    for argument, message in (("a.txt", "is no file"), ("b.txt", "is no file"), ("not a name!", "a file must exist")):
        with pytest.raises(BadRequirements, match=message):
            read([argument])
