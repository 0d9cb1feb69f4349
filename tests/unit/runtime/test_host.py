"""What is printed in a container can be typed on the host."""

import sys

import pytest

from ftrun import host
from tests.checkout import CHECKOUT
from tests.programs import completed


@pytest.fixture
def container(monkeypatch):
    """The variables that compose.yaml sets."""
    monkeypatch.setenv("FT_RESULTS", "results")
    monkeypatch.setenv("FT_CODE", "~/my code")
    monkeypatch.setenv("FT_DATA", "")
    monkeypatch.setenv("FT_COMMAND", "docker compose run --rm ft-bench")


def test_paths_of_mounted_folders_are_the_hosts(container):
    assert host.path("/results/20260101/report.html") == "results/20260101/report.html"
    assert host.path("/code/data.py") == "~/my code/data.py"
    assert host.path("/data") == "."
    assert host.path("/resultsandmore") == "/resultsandmore"


def test_results_are_found_by_the_hosts_name_and_by_the_containers(container):
    for typed in (
        "results/latest",
        "./results/latest",
        "/results/latest",
        host.path("/results/latest"),
    ):
        assert str(host.inside(typed)) == "/results/latest"
    assert str(host.inside("resultsandmore/x")) == "resultsandmore/x"


def test_commands_are_typed_on_the_host(container):
    assert host.command("python -m ftbench") == "docker compose run --rm ft-bench"
    assert (
        host.audit("/code/data.py:x y")
        == "CODE=~/'my code' docker compose run --rm ft-audit 'data.py:x y'"
    )
    assert host.audit("data.py:x", {"CODE": "me", "DATA": "/photos"}) == (
        "CODE=./me DATA=/photos docker compose run --rm ft-audit data.py:x"
    )
    assert host.derived_image().startswith("derive an image that has it from each twin (docs/")
    assert host.report("/results/1 a") == "docker compose run --rm ft-bench report '/results/1 a'"


def test_natively_nothing_is_changed(monkeypatch):
    for name in ("FT_RESULTS", "FT_CODE", "FT_DATA", "FT_COMMAND"):
        monkeypatch.delenv(name, raising=False)
    assert str(host.inside("results/a")) == "results/a"
    assert host.path("/results/a") == "/results/a" and host.command("python -m x") == "python -m x"
    assert host.derived_image() == ""
    assert host.audit("/code/data.py:x") == "./twins audit /code/data.py:x"
    assert host.report("/results/1") == "./twins bench report /results/1"


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["python"]])
@pytest.mark.slow
def test_the_image_names_its_verbs_first(arguments, tmp_path):
    """Also for its default command if there is nothing to read."""
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = completed([CHECKOUT / "docker/entrypoint", *arguments], env=variables, status=0)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("gil-env: CPython with the GIL, with PyTorch")
    assert lines[1].startswith("usage: docker run --rm gil-env VERB") and len(lines) <= 10
    assert all(f"\n  {verb} " in done.stdout for verb in ("info", "bench", "audit", "repro"))


@pytest.mark.parametrize(
    "typed, said",
    [("inof", "'inof': did you mean 'info'?"), ("nothing-like-it", "'nothing-like-it'")],
)
@pytest.mark.slow
def test_the_image_suggests_a_verb(typed, said, tmp_path):
    (tmp_path / "python").symlink_to(sys.executable)
    variables = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
    done = completed([CHECKOUT / "docker/entrypoint", typed], env=variables, status=127)
    assert done.stderr == f"gil-env: there is no verb or program {said}\n"
