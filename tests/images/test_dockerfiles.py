"""The twins are twins: their Dockerfiles differ in the GIL alone. Needs no engine."""

import difflib

from tests.checkout import CHECKOUT


def test_dockerfiles_differ_in_one_line():
    ft, gil = ((CHECKOUT / f"Dockerfile.{twin}").read_text().splitlines() for twin in ("ft", "gil"))
    difference = [line for line in difflib.ndiff(ft, gil) if line[0] in "+-"]
    assert difference == ["- ARG TWIN=ft", "+ ARG TWIN=gil"]
