"""The scripts and the workflow of a release."""

import json
import os
import re
import shutil

import pytest

from tests.checkout import CHECKOUT, locked
from tests.programs import completed

WORKFLOWS = CHECKOUT / ".github" / "workflows"
INIT = "loader/ftloader/__init__.py"
(VERSION,) = re.findall(r'^__version__ = "(.+)"$', (CHECKOUT / INIT).read_text(), re.M)


def test_every_action_is_pinned_by_its_commit():
    for path in WORKFLOWS.iterdir():
        used = re.findall(r"uses: (.*)", path.read_text())
        assert used and all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", line) for line in used)


def test_only_a_tag_starts_a_release_and_no_job_has_more_than_it_needs():
    text = (WORKFLOWS / "release.yml").read_text()
    assert re.search(r'^on:\n  push:\n    tags: \["v\*"\]\n\npermissions: \{\}$', text, re.M)
    assert "secrets." not in text and "pull_request" not in text
    granted = re.findall(r"^      ([a-z-]+: (?:write|read))", text, re.M)
    jobs = text.count("\n    runs-on:")
    assert jobs == text.count("\n    permissions:") == text.count("\n    timeout-minutes:") == 4
    assert granted.count("packages: write") == granted.count("id-token: write") == 2


def test_the_release_builds_the_series_that_ci_tests():
    ci, release = (
        re.search(r"python: (\[\{series.*\])", (WORKFLOWS / name).read_text())[1]
        for name in ("ci.yml", "release.yml")
    )
    assert ci == release


@pytest.fixture
def release(tmp_path):
    """A copy of what a release looks at, with the changelog of a release."""
    for name in (
        ".ci/release-check",
        ".ci/publish-images",
        ".ci/sbom-check",
        INIT,
        "docker/python-series",
        "docker/requirements.lock",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / name, tmp_path / name)
    (tmp_path / "changes").mkdir()
    (tmp_path / "changes" / "README.md").touch()
    (tmp_path / "CHANGELOG.md").write_text(f"## [{VERSION}] - 2026-12-01\n")
    return tmp_path


def test_a_release_needs_its_tag_its_changelog_and_no_change_left_over(release):
    check = release / ".ci" / "release-check"
    assert completed([check, f"v{VERSION}"], 0).stdout == f"{VERSION}\n"
    assert f"the version {VERSION}" in completed([check, "v9.9.9"], 1).stderr
    (release / "changes" / "new.added.md").touch()
    assert "changes/ has 1 files" in completed([check, f"v{VERSION}"], 1).stderr
    (release / "changes" / "new.added.md").unlink()
    (release / "CHANGELOG.md").write_text(f"## [{VERSION}] - not yet released\n")
    assert "has no section" in completed([check, f"v{VERSION}"], 1).stderr


DOCKER = """#!/bin/sh
echo "$*" >>"$CALLS"
while [ $# -gt 0 ]; do
  [ "$1" != --metadata-file ] || printf '{\\n  "containerimage.digest": "sha256:%s"\\n}' abc >"$2"
  case "$*" in "inspect "*SBOM*) echo "$SBOM" ;; "inspect "*) echo '"sha256:def"' ;; esac
  shift
done
"""


def sbom(**others):
    """Return an SBOM of the locked packages, with other versions of the named ones."""
    lock = (CHECKOUT / "docker" / "requirements.lock").read_text()
    versions = dict(re.findall(r"^([^\s#=]+)==(\S+)", lock, re.M)) | others
    packages = [{"name": name, "versionInfo": version} for name, version in versions.items()]
    return json.dumps({"packages": packages})


@pytest.mark.parametrize("twin, name", [("ft", "3.13t"), ("gil", "3.13")])
def test_images_are_pushed_without_a_tag_then_joined_and_tagged(release, twin, name):
    docker = release / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(DOCKER)
    docker.chmod(0o755)
    calls = release / "calls"
    variables = {
        **os.environ,
        "PATH": f"{docker.parent}:{os.environ['PATH']}",
        "CALLS": str(calls),
        "PROJECT_URL": "https://example.org/o/ft-env",
        "SBOM": sbom(),
    }
    publish = [release / ".ci" / "publish-images"]
    image = f"registry.example/o/{twin}-env"

    build = ["build", twin, "3.13", "trixie", "registry.example/o", release / "digests"]
    completed([*publish, *build], 0, env=variables)
    said = calls.read_text()
    assert f"name={image},push-by-digest=true" in said and f"--file Dockerfile.{twin}" in said
    assert "--provenance mode=max --sbom true" in said and f"image.version={VERSION}" in said
    assert [path.name for path in (release / "digests").iterdir()] == ["abc"]
    done = completed([*publish, *build], 1, env={**variables, "SBOM": sbom(torch="2.9.1")})
    assert f"not in the SBOM: torch {locked('torch')}\n" in done.stderr

    (release / "digests" / "123").touch()
    calls.unlink()
    tag = ["tag", twin, "3.13", "registry.example/o", release / "digests"]
    assert completed([*publish, *tag], 0, env=variables).stdout == f"{image}@sha256:def\n"
    create, _ = calls.read_text().splitlines()
    tags = [f"{image}:{name}", f"{image}:{VERSION}-{name}", f"{image}:latest"]
    assert re.findall(r"--tag (\S+)", create) == tags
    assert create.endswith(f" {image}@sha256:123 {image}@sha256:abc")

    calls.unlink()
    for_cpus = {name: f"{locked(name)}+cpu" for name in ("torch", "torchvision")}
    variables |= {"CUDA": "no", "SBOM": sbom(**for_cpus)}
    completed([*publish, *build], 0, env=variables)
    completed([*publish, *tag], 0, env=variables)
    built, _, create, _ = calls.read_text().splitlines()
    assert "--build-arg CUDA=no " in built
    assert re.findall(r"--tag (\S+)", create) == [f"{tag}-cpu" for tag in tags]
