"""The twins are twins: their Dockerfiles differ in the GIL alone. Needs no engine."""

import difflib
import json
import re

from tests.checkout import CHECKOUT


def test_dockerfiles_differ_in_one_line():
    ft, gil = ((CHECKOUT / f"Dockerfile.{twin}").read_text().splitlines() for twin in ("ft", "gil"))
    difference = [line for line in difflib.ndiff(ft, gil) if line[0] in "+-"]
    assert difference == ["- ARG TWIN=ft", "+ ARG TWIN=gil"]


def test_the_development_container_is_built_from_what_exists():
    folder = CHECKOUT / ".devcontainer"
    build = json.loads((folder / "devcontainer.json").read_text())["build"]
    dockerfile = folder / build["dockerfile"]
    assert (folder / build["context"]).resolve() == CHECKOUT
    declared = re.findall(r"^ARG (\w+)", dockerfile.read_text(), re.M)
    assert set(build["args"]) <= set(declared)
