# /// script
# dependencies = ["kubernetes-validate==1.37.0"]
# ///
"""Program that validates a file of Kubernetes manifests against the schemas of Kubernetes, and
prints them as JSON.

    python tests/cluster/manifests.py FILE

Kubeflow's kinds have no schema there. Of a TrainingRuntime, the Job in it is validated.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# the oldest that the manifests say they need, and the newest that has schemas
VERSIONS = ("1.29", "1.37")


def documents(file: Path, folder: Path) -> list[dict[str, Any]]:
    """Return the valid manifests of *file*. Skips the test
    if the validator cannot be installed into *folder*.

    A folder of an earlier call is used again.
    """
    from ftrun.errors import OverlayError
    from ftrun.interruption import Interruption
    from tests.libraries.run import CACHE, install_for

    try:
        with Interruption() as interruption:
            if not folder.exists():
                install_for(Path(__file__), folder, CACHE, interruption)
    except OverlayError as error:
        pytest.skip(f"kubernetes-validate cannot be installed: {error}")
    paths = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, __file__, file],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def job_of(manifest: dict[str, Any]) -> dict[str, Any] | None:
    """Return the Job of a manifest, or the one that a TrainingRuntime makes;
    None for other kinds.
    """
    if manifest["kind"] == "Job":
        return manifest
    if manifest["kind"] == "TrainingRuntime":
        (node,) = manifest["spec"]["template"]["spec"]["replicatedJobs"]
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "node"},
            "spec": node["template"]["spec"],
        }
    return None


def main() -> None:
    """Validate the file named by the first argument;
    exit with the validator's error if it is wrong.
    """
    import kubernetes_validate
    import yaml

    manifests = list(yaml.safe_load_all(Path(sys.argv[1]).read_text()))
    for job in filter(None, map(job_of, manifests)):
        for version in VERSIONS:
            kubernetes_validate.validate(job, version, strict=True)
    print(json.dumps(manifests))


if __name__ == "__main__":
    main()
