"""docker/patches.txt and docker/patch-cpython: which patches CPython's source gets."""

import re
import shutil

import pytest

from tests.checkout import CHECKOUT
from tests.programs import completed

DOCKER = CHECKOUT / "docker"
OWN = sorted((DOCKER / "patches").rglob("*.patch"))
VERSION = "9.9.9-1"


@pytest.fixture
def source(tmp_path, shell_environment):
    """A CPython of one file, patches of Debian's as (name, number of the line that becomes FIXED),
    and the tool.
    """
    for each in ("patch-cpython", "patches.txt"):
        shutil.copy(DOCKER / each, tmp_path / each)
    (tmp_path / "cpython").mkdir()
    (tmp_path / "debian").mkdir()
    lines = [f"line {number}\n" for number in range(40)]
    (tmp_path / "cpython" / "file").write_text("".join(lines))

    def patch(number):
        return (
            f"--- a/file\n+++ b/file\n@@ -{number + 1} +{number + 1} "
            f"@@\n-{lines[number]}+FIXED {number}\n"
        )

    def run(debian, own=()):
        (tmp_path / "debian" / "series").write_text(
            "# a comment\n\n" + "".join(f"{name}\n" for name, _ in debian)
        )
        (tmp_path / "patches" / "9.9.9").mkdir(parents=True)
        for folder, patches in (
            (tmp_path / "debian", debian),
            (tmp_path / "patches" / "9.9.9", own),
        ):
            for name, number in patches:
                (folder / name).write_text(f"{name.partition('.')[0]}: why\n\n{patch(number)}")
        done = completed(
            [tmp_path / "patch-cpython", tmp_path / "cpython", tmp_path / "debian", VERSION],
            env=shell_environment,
        )
        return done, [
            int(number)
            for number in re.findall(r"FIXED (\d+)", (tmp_path / "cpython" / "file").read_text())
        ]

    return run


@pytest.mark.slow
def test_what_is_taken_and_what_is_left(source):
    debian = [("deb-locations.diff", 3), ("CVE-2099-1.patch", 13), ("min-tempfile.diff", 23)]
    done, fixed = source(debian, [("gh-1.patch", 33)])
    assert done.returncode == 0, done.stderr
    assert fixed == [13, 33]
    found = re.findall(r"^[0-9a-f]{64}  (\S+)  (.+)$", done.stdout, re.M)
    assert found == [("CVE-2099-1.patch", "security fixes"), ("gh-1.patch", "gh-1: why")]


@pytest.mark.slow
def test_a_patch_that_nobody_has_judged(source):
    done, _ = source([("CVE-2099-1.patch", 13), ("brand-new.patch", 23)])
    assert done.returncode == 1
    assert "docker/patches.txt says nothing: brand-new.patch\n" in done.stderr
    assert 'Add "take NAME REASON" to docker/patches.txt' in done.stderr and VERSION in done.stderr


@pytest.mark.slow
def test_a_patch_that_does_not_apply(source):
    done, _ = source([("CVE-2099-1.patch", 13), ("CVE-2099-2.patch", 13)])
    assert done.returncode == 1
    assert "CVE-2099-2.patch does not apply to 9.9.9-1" in done.stderr


def test_every_judgement_has_its_reason():
    lines = [
        line
        for line in (DOCKER / "patches.txt").read_text().splitlines()
        if line and line[0] != "#"
    ]
    assert len(lines) > 25
    for line in lines:
        assert re.fullmatch(r"(take|leave)\s+\S+\s+\S.*", line), line


@pytest.mark.parametrize("patch", OWN, ids=lambda patch: patch.stem)
def test_own_patches_name_their_issue_and_release(patch):
    first = patch.read_text().partition("\n")[0]
    found = re.fullmatch(
        r"(gh-\d+, )*gh-\d+: .+\. From CPython (?P<release>\d+\.\d+\.\d+).*\.", first
    )
    assert found, first
    fixed, patched = (
        [int(n) for n in version.split(".")] for version in (found["release"], patch.parent.name)
    )
    assert fixed > patched
    assert first.partition(":")[0].partition(",")[0] in patch.name
