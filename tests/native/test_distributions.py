"""The distributions ftloader and ft-env, built and installed next
to code that has modules of the same names.
"""

import hashlib
import subprocess

import pytest

from tests.checkout import CHECKOUT
from tests.programs import completed, make_environment

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
        subprocess.run(
            [CHECKOUT / "docker" / "build-distributions", out], env=shell_environment, check=True
        )
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
