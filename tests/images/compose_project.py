"""A project directory as a user of compose has it, for tests that type commands there."""

import os
import shutil
import subprocess
import uuid
from pathlib import Path

from tests.checkout import CHECKOUT
from tests.programs import completed

CALLER = 12345  # a user id that exists neither in the image nor here
SOON = 240.0  # seconds; less than servers wait for another client (--idle in compose.yaml)


class Project:
    """A directory with compose.yaml, repro/ and results/, as in a clone. Where this is root, it
    belongs to `owner`.
    """

    def __init__(self, directory: Path, environment: dict, owner: int = CALLER) -> None:
        self.environment = environment
        self.directory = directory
        self.name = f"ft-env-test-{uuid.uuid4().hex[:8]}"
        self.results = directory / "results"
        self.results.mkdir()
        shutil.copy(CHECKOUT / "compose.yaml", directory)
        shutil.copytree(
            CHECKOUT / "repro", directory / "repro", ignore=shutil.ignore_patterns("__pycache__")
        )
        if os.geteuid() == 0:
            for path in (directory, self.results):
                os.chown(path, owner, owner)

    def command(self, *arguments: str) -> list[str]:
        folder, file = str(self.directory), str(self.directory / "compose.yaml")
        return [
            "docker",
            "compose",
            "--project-name",
            self.name,
            "--project-directory",
            folder,
            "-f",
            file,
            *arguments,
        ]

    def run(self, *arguments: str, status: int | None = None) -> subprocess.CompletedProcess:
        return completed(
            self.command("run", "--rm", "-T", *arguments), status, env=self.environment
        )

    def down(self) -> None:
        """Remove the project's containers, networks and volumes."""
        command = self.command("down", "--volumes", "--timeout", "2")
        subprocess.run(command, env=self.environment, capture_output=True, check=True)

    def containers(self, engine, status: str | None = "running") -> list:
        """Return the project's containers in this status; with None, all of them."""
        filters = {
            "label": f"com.docker.compose.project={self.name}",
            **({"status": status} if status else {}),
        }
        return engine.containers.list(all=status is None, filters=filters, ignore_removed=True)
