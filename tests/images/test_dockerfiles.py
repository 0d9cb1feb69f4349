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
