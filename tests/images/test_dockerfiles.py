"""The twins are twins: their Dockerfiles differ in the GIL alone. Needs no engine."""

import difflib
import tomllib

from tests.checkout import CHECKOUT


def test_dockerfiles_differ_in_one_line():
    ft, gil = ((CHECKOUT / f"Dockerfile.{twin}").read_text().splitlines() for twin in ("ft", "gil"))
    difference = [line for line in difflib.ndiff(ft, gil) if line[0] in "+-"]
    assert difference == ["- ARG TWIN=ft", "+ ARG TWIN=gil"]


def test_the_label_names_the_version():
    version = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"]
    assert f'org.opencontainers.image.version="{version}"' in (CHECKOUT / "Dockerfile.ft").read_text()


def test_scripts_use_the_twin_for_the_gil_alone():
    # TWIN reaches the build script, the verification and the title label, and build-cpython turns it
    # into the one configure flag.
    dockerfile = (CHECKOUT / "Dockerfile.ft").read_text()
    uses = [line.strip() for line in dockerfile.splitlines() if "${TWIN}" in line]
    assert len(uses) == 3 and "build-cpython" in uses[0] and "--expect" in uses[1] and "title" in uses[2]
    script = (CHECKOUT / "docker" / "build-cpython").read_text()
    assert script.count("--disable-gil") == 2  # the comment on top, and the flag
    assert "ft) flags+=(--disable-gil) ;;" in script
