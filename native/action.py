"""Body of action.yml: a verb of `./twins` in somebody's CI, reported as GitHub's runner expects.

The report goes into the job's summary, findings become annotations at their lines, and the exit
status is the verb's. Runs as a script of its own, with the standard library alone. Sources:
https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

TWINS = Path(__file__).resolve().parents[1] / "twins"
MOST_SUMMARY = 1000 * 1024
"""Bytes of a report in the summary. A step's summary may have 1024 KiB."""
MOST_ANNOTATIONS = 10
"""Number of annotations of a level that the runner shows of a step."""
LEVELS = {"problem": "error", "risk": "warning"}
"""{level of a finding: level of its annotation}; "notice" for the others."""
PLACE = re.compile(r"(?P<file>.+?\.py):(?P<line>\d+)(?:\s|$)")
# What the runner gives a step for itself. A script under test could write outputs, variables and
# paths of later steps with them, or use a token.
RUNNERS_OWN = re.compile(r"(GITHUB|ACTIONS|ACTION|RUNNER|INPUT)_|GH_TOKEN$")
WRONG_USAGE = 2
# Texts of scripts may hold lone surrogates, which are in no encoding.
LENIENT = "backslashreplace"


class WrongUsage(Exception):
    """An input of the action is wrong. The message says which, and what would be right."""


@dataclass(frozen=True)
class Annotation:
    """A remark at a line of the repository."""

    level: str
    """error, warning or notice"""
    title: str
    message: str
    file: str = ""
    line: str = ""

    def command(self) -> str:
        """Return the workflow command that makes the annotation."""
        properties = {"title": self.title, "file": self.file, "line": self.line}
        words = [f"{name}={escaped(value, ':,')}" for name, value in properties.items() if value]
        return f"::{self.level} {','.join(words)}::{escaped(self.message)}"


@dataclass
class VerbAnswer:
    """What a verb has found."""

    status: int
    verdict: str
    report: str
    """Markdown"""
    annotations: list[Annotation] = field(default_factory=list)


@dataclass(frozen=True)
class RunnerStep:
    """The inputs of the action, and the folders of the runner."""

    command: str
    target: str
    arguments: Sequence[str]
    base: str
    workspace: Path
    """The repository's root."""
    scratch: Path
    """Folder for the reports, outside of the repository."""
    variables: Mapping[str, str]
    """Environment variables of the verb: without the runner's own."""

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> RunnerStep:
        """Return the step that the variables of a runner describe; raise WrongUsage."""
        command = environment.get("ACTION_COMMAND", "")
        target = environment.get("ACTION_TARGET", "")
        if command not in COMMANDS:
            raise WrongUsage(f"command is {command!r}, not one of {', '.join(COMMANDS)}")
        if not target.strip():
            raise WrongUsage(f"target is empty: name what {command} is to look at")
        arguments = _split("arguments", environment.get("ACTION_ARGUMENTS", ""))
        if any(word.partition("=")[0] == "--out" for word in arguments):
            raise WrongUsage("arguments: leave out --out, the output `report` names the file")
        return cls(
            command=command,
            target=target,
            arguments=arguments,
            base=_base(environment),
            workspace=Path(environment.get("GITHUB_WORKSPACE") or Path.cwd()).resolve(),
            scratch=Path(environment.get("RUNNER_TEMP") or "/tmp").resolve(),
            variables=_without_runners_own(environment),
        )

    def twins(
        self, *arguments: str, folder: Path | None = None, keep: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run `./twins` with these arguments. Its output is shown, or kept if *keep*."""
        sys.stdout.flush()
        return subprocess.run(
            [str(TWINS), *arguments],
            cwd=folder,
            env=dict(self.variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if keep else None,
            encoding="utf-8",
            errors="replace",
            check=False,
        )

    def elsewhere(self, tree: Path) -> RunnerStep:
        """Return this step in another working tree of the repository, also for PYTHONPATH."""
        variables = dict(self.variables)
        if "PYTHONPATH" in variables:
            path = variables["PYTHONPATH"].replace(str(self.workspace), str(tree))
            variables["PYTHONPATH"] = path
        return replace(self, workspace=tree, variables=variables)

    def in_repository(self, file: str) -> str:
        """Return a file's path from the repository's root; the path itself if it is outside."""
        path = Path(file).resolve()
        if path.is_relative_to(self.workspace):
            return str(path.relative_to(self.workspace))
        return file


def _split(name: str, words: str) -> list[str]:
    try:
        return shlex.split(words)
    except ValueError as error:
        raise WrongUsage(f"{name} cannot be split as a shell does: {error}") from error


def _base(environment: Mapping[str, str]) -> str:
    """Return the commit to compare with: the one that is named, else a pull request's base."""
    base = environment.get("ACTION_BASE") or "HEAD^"
    if base.startswith("-"):
        raise WrongUsage(f"base is {base!r}, which names no commit")
    branch = environment.get("GITHUB_BASE_REF")
    if branch and not environment.get("ACTION_BASE"):
        return f"origin/{branch}"
    return base


def _without_runners_own(environment: Mapping[str, str]) -> dict[str, str]:
    variables = {}
    for name, value in environment.items():
        if not RUNNERS_OWN.match(name):
            variables[name] = value
    return variables


def repro(step: RunnerStep) -> VerbAnswer:
    """Run a script many times with and without the GIL."""
    file = step.scratch / "ft-env-repro.md"
    file.unlink(missing_ok=True)
    done = step.twins("repro", step.target, "--out", str(file), *step.arguments)
    report, verdict = "", "the script was not run: the log says why"
    if file.exists():
        report = file.read_text(encoding="utf-8")
    if bold := re.search(r"^\*\*(.*)\*\*$", report, re.MULTILINE):
        verdict = bold[1]
    answer = VerbAnswer(done.returncode, verdict, report)
    if done.returncode:
        name, line = Path(step.target).name, ""
        if place := re.search(rf"{re.escape(name)}:(\d+)", report.replace("\\", "")):
            line = place[1]
        file_name = step.in_repository(step.target)
        answer.annotations.append(Annotation("error", f"ft-env: {name}", verdict, file_name, line))
    return answer


def audit(step: RunnerStep) -> VerbAnswer:
    """Look for places where a dataset is not safe under threads."""
    done = step.twins("audit", step.target, "--json", *step.arguments, keep=True)
    try:
        report = json.loads(done.stdout)
        if "verdict" not in report:  # the audit could not be made
            words = report["error"]
            return VerbAnswer(done.returncode, words.partition("\n")[0], fenced(words))
    except (ValueError, TypeError, KeyError):
        return VerbAnswer(done.returncode, "no audit: the log says why", fenced(done.stdout))
    sections = [f"## Audit of `{step.target}`", f"**{report['verdict']}**", report["environment"]]
    annotations = []
    for finding in report["findings"]:
        details = [finding["what"], f"Remedy: {finding['remedy']}", f"Seen: {finding['seen']}"]
        sections.append(f"### {finding['title']}")
        sections.append(fenced("\n".join([finding["where"], *details])))
        file = line = ""
        if place := PLACE.match(finding["where"]):
            file, line = step.in_repository(place["file"]), place["line"]
        level = LEVELS.get(finding["level"], "notice")
        annotations.append(Annotation(level, finding["title"], "\n".join(details), file, line))
    sections.append("Tried: " + "; ".join(report["tried"]))
    sections.append("It cannot show: " + "; ".join(report["cannot"]))
    return VerbAnswer(done.returncode, report["verdict"], "\n\n".join(sections), annotations)


def requirements(step: RunnerStep) -> VerbAnswer:
    """Look which packages turn the GIL on."""
    names = _split("target", step.target)
    done = step.twins("info", "--requirements", *names, *step.arguments, keep=True)
    verdict = last_line(done.stdout) or "no answer: the log says why"
    answer = VerbAnswer(
        done.returncode, verdict, f"## The GIL and these packages\n\n{fenced(done.stdout)}"
    )
    if done.returncode:
        files = [*map(step.in_repository, filter(os.path.isfile, names))]
        annotation = Annotation("warning", "ft-env: packages", verdict, "".join(files[:1]))
        answer.annotations.append(annotation)
    return answer


def bench(step: RunnerStep) -> VerbAnswer:
    """Compare how fast a dataset loads with the base branch."""
    folder = Path.cwd().resolve()
    tree = step.scratch / "ft-env-base"
    git = ["git", "-C", str(step.workspace)]
    commit = f"{step.base}^{{commit}}"
    resolved = subprocess.run([*git, "rev-parse", "-q", "--verify", commit], stdout=subprocess.PIPE)
    if resolved.returncode:
        raise WrongUsage(
            f"base: there is no commit {step.base!r} here: give actions/checkout fetch-depth: 0, "
            "or name another base"
        )
    add = ["worktree", "add", "--force", "--detach", str(tree), resolved.stdout.decode().strip()]
    subprocess.run([*git, *add], check=True, stdout=subprocess.DEVNULL)
    try:
        runs, options = [], list(step.arguments)
        base = step.elsewhere(tree)
        for name, run in (("base", base), ("head", step)):
            out = step.scratch / f"ft-env-bench-{name}"
            dataset = ["bench", "--dataset", step.target, "--out", str(out)]
            place = run.workspace / folder.relative_to(step.workspace)
            done = run.twins(*dataset, *options, folder=place)
            if done.returncode:
                return VerbAnswer(done.returncode, f"the run of the {name} failed: see the log", "")
            runs.append(str(out / "latest"))
            if "--batch-size" not in options:
                # chosen from measured times; runs with other batches cannot be compared
                options += ["--batch-size", batch_size(out / "latest" / "results.json")]
        done = step.twins("bench", "compare", "--worse", *runs, keep=True)
    finally:
        subprocess.run([*git, "worktree", "remove", "--force", str(tree)], check=False)
    verdict = last_line(done.stdout) or "the runs cannot be compared: the log says why"
    title = f"## `{step.target}`: A is {step.base}, B is this commit"
    answer = VerbAnswer(done.returncode, verdict, f"{title}\n\n{fenced(done.stdout)}")
    if done.returncode:
        file = step.in_repository(step.target.rpartition(":")[0])
        answer.annotations.append(Annotation("error", "ft-env: loading", verdict, file))
    return answer


COMMANDS = {"repro": repro, "audit": audit, "requirements": requirements, "bench": bench}


def batch_size(results: Path) -> str:
    """Return the samples a batch of a benchmark's run."""
    (scenario,) = json.loads(results.read_text(encoding="utf-8"))["scenarios"]
    (case,) = scenario["cases"] or [scenario]
    return str(case["load"]["batch_size"])


def last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]


def escaped(text: str, more: str = "") -> str:
    """Return *text* for a workflow command, the characters of *more* escaped, too."""
    for character in "%\r\n" + more:
        text = text.replace(character, f"%{ord(character):02X}")
    return text


# Not ftrun.escape.fenced: this script runs alone (python3 -I), and native imports only what checks
# arguments. The runner's page is no terminal, so nothing else is escaped.
def fenced(text: str) -> str:
    """Return *text* as a block of code, whose fence is longer than any in the text."""
    longest = max((len(ticks) for ticks in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}text\n{text.strip()}\n{fence}"


def cut(report: str) -> str:
    """Return a *report* that fits into the summary."""
    content = report.encode(errors=LENIENT)
    if len(content) <= MOST_SUMMARY:
        return report
    return content[:MOST_SUMMARY].decode(errors="ignore") + "\n\n(cut: the file has all of it)"


def output(name: str, value: str) -> str:
    """Return a line or lines that set an output, whatever *value* holds."""
    end = secrets.token_hex(16)
    return f"{name}<<{end}\n{value}\n{end}\n"


def main(environment: Mapping[str, str]) -> int:
    """Run the step that the variables of a runner describe; return its exit status."""
    # Lines of a script under test that look like workflow commands are none.
    pause = secrets.token_hex(16)
    print(f"::stop-commands::{pause}", flush=True)
    try:
        step = RunnerStep.read(environment)
        answer = COMMANDS[step.command](step)
    except WrongUsage as error:
        print(f"::{pause}::")
        print(f"::error title=ft-env::{escaped(str(error))}", flush=True)
        return WRONG_USAGE
    print(f"\n{answer.verdict}\n::{pause}::", flush=True)
    for annotation in answer.annotations[:MOST_ANNOTATIONS]:
        print(annotation.command(), flush=True)
    report = step.scratch / "ft-env-report.md"
    report.write_text(answer.report + "\n", encoding="utf-8", errors=LENIENT)
    values = {"status": str(answer.status), "verdict": answer.verdict, "report": str(report)}
    with open(environment["GITHUB_OUTPUT"], "a", encoding="utf-8", errors=LENIENT) as file:
        file.writelines(output(name, value) for name, value in values.items())
    with open(environment["GITHUB_STEP_SUMMARY"], "a", encoding="utf-8", errors=LENIENT) as file:
        file.write(cut(answer.report) + "\n")
    return answer.status


if __name__ == "__main__":
    sys.exit(main(os.environ))
