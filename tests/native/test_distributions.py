"""The distributions ftloader and ft-env, built and installed next
to code that has modules of the same names.
"""

import email
import hashlib
import subprocess
import zipfile

import pytest
from markdown_it import MarkdownIt

from tests.checkout import CHECKOUT
from tests.programs import completed, make_environment

URL = "https://example.org/owner/ft-env"
CHECKERS = ["twine==7.0.0", "check-wheel-contents==0.6.3"]
JOB = """
import bench.speed, loader  # the job's own
import ftloader, ftbench, ftsafety.audit, ftrun, torch
assert loader.MINE and bench.speed.MINE
batches = ftloader.DataLoader(torch.arange(8), batch_size=4, num_workers=2, worker_method="thread")
print(*(batch.tolist() for batch in batches))
print(ftloader.__file__)
print(len(ftsafety.audit.audit(torch.arange(8).tolist(), seconds=0.2).findings), "findings")
"""


@pytest.fixture(scope="module")
def build(tmp_path_factory, shell_environment):
    def build():
        out = tmp_path_factory.mktemp("distributions")
        variables = {**shell_environment, "PROJECT_URL": URL}
        command = [CHECKOUT / "docker" / "build-distributions", out]
        subprocess.run(command, env=variables, check=True)
        return out

    return build


@pytest.fixture(scope="module")
def distributions(build):
    return build()


@pytest.mark.slow
def test_both_have_an_sdist_and_a_wheel_and_nothing_is_left_in_the_checkout(distributions):
    names = sorted(path.name for path in distributions.iterdir())
    assert [name.partition("-")[0] for name in names] == [
        "ft_env",
        "ft_env",
        "ftloader",
        "ftloader",
    ]
    assert [name for name in names if name.endswith("-py3-none-any.whl")] == [names[0], names[2]]
    assert not list(CHECKOUT.glob("*.egg-info")) and not list(CHECKOUT.glob("*/*.egg-info"))


@pytest.mark.slow
def test_the_same_source_gives_the_same_wheels(distributions, build):
    def digests(directory):
        return {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in directory.glob("*.whl")
        }

    assert digests(build()) == digests(distributions)


@pytest.fixture(scope="module")
def metadata(distributions):
    """The metadata of each wheel, by the distribution's name."""
    result = {}
    for path in distributions.glob("*.whl"):
        with zipfile.ZipFile(path) as wheel:
            (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
            fields = email.message_from_bytes(wheel.read(name))
        result[fields["Name"]] = fields
    return result


def targets(markdown):
    """The targets of links and pictures in Markdown."""
    result = []
    for block in MarkdownIt().parse(markdown):
        for token in block.children or ():
            result += [str(token.attrs[name]) for name in ("href", "src") if name in token.attrs]
    return result


@pytest.mark.slow
@pytest.mark.parametrize("name, folder", [("ft-env", ""), ("ftloader", "loader")])
def test_every_link_of_a_description_leads_to_the_version_it_describes(metadata, name, folder):
    fields = metadata[name]
    tag = f"v{fields['Version']}"
    shown = targets(fields.get_payload())
    written = targets((CHECKOUT / folder / "README.md").read_text())
    assert len(shown) == len(written) > 2
    for link, relative in zip(shown, written):
        if relative.startswith(("https://", "#")):
            assert link == relative
            continue
        kind, path = link.removeprefix(f"{URL}/").split(f"/{tag}/")
        assert kind == ("raw" if relative.endswith((".svg", ".png")) else "blob")
        path = CHECKOUT / path.partition("#")[0]
        assert path == (CHECKOUT / folder / relative.partition("#")[0]).resolve() and path.exists()
    urls = dict(line.split(", ") for line in fields.get_all("Project-URL"))
    assert urls["Source"] == URL and tag in urls["Changelog"]


@pytest.mark.slow
def test_both_have_the_version_of_the_loader(metadata, distributions):
    version = metadata["ftloader"]["Version"]
    assert f'__version__ = "{version}"' in (CHECKOUT / "loader/ftloader/__init__.py").read_text()
    assert metadata["ft-env"]["Version"] == version
    assert f"ftloader=={version}" in metadata["ft-env"].get_all("Requires-Dist")
    assert all(f"-{version}" in path.name for path in distributions.iterdir())


@pytest.mark.slow
def test_the_checkers_of_an_index_are_content(distributions, output_of, tmp_path):
    # Not all that twine needs has a wheel for the free-threaded build.
    python = output_of("gil", "import sys; print(sys.executable)")
    completed([python, "-m", "venv", tmp_path / "env"], status=0)
    programs = tmp_path / "env" / "bin"
    completed([programs / "pip", "install", "--quiet", *CHECKERS], status=0)
    completed([programs / "twine", "check", "--strict", *distributions.iterdir()], status=0)
    wheels = distributions.glob("*.whl")
    completed([programs / "check-wheel-contents", *wheels], cwd=CHECKOUT, status=0)


def test_both_carry_the_licence():
    assert (CHECKOUT / "loader" / "LICENSE").read_bytes() == (CHECKOUT / "LICENSE").read_bytes()


@pytest.mark.parametrize("twin, kind", [("ft", "*.whl"), ("gil", "*.tar.gz")])
@pytest.mark.slow
def test_they_work_beside_a_job_with_a_loader_and_a_bench_of_its_own(
    output_of, shell_environment, distributions, twin, kind, tmp_path
):
    code = "import sys, sysconfig; print(sys.executable, sysconfig.get_path('purelib'))"
    python, packages = output_of(twin, code).split()
    site = make_environment(tmp_path / "env", python, packages, shell_environment)
    own = tmp_path / "env" / "bin" / "python"
    options = ["--quiet", "--no-deps", "--disable-pip-version-check"]
    done = completed(
        [own, "-m", "pip", "install", *options, *distributions.glob(kind)],
        env=shell_environment,
        status=0,
    )

    job = tmp_path / "job"
    (job / "bench").mkdir(parents=True)
    (job / "loader.py").write_text("MINE = True\n")
    (job / "bench" / "speed.py").write_text("MINE = True\n")
    (job / "train.py").write_text(JOB)
    done = completed([own, "train.py"], cwd=job, env=shell_environment, status=0)
    batches, where, findings = done.stdout.splitlines()
    assert batches == "[0, 1, 2, 3] [4, 5, 6, 7]" and findings == "0 findings"
    assert where == str(site / "ftloader" / "__init__.py")
