"""Runs of a script on the workers of a Dask cluster:
each task is a whole campaign (ftsafety.repro.task).

The outcomes of the tasks are added up. The connection to the cluster is a child process, whose
Python has Dask's client (native/cluster).
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from ftrun.configurations import last_lines
from ftrun.environment import source_hash
from ftrun.errors import Disconnected, Interrupted, TwinError
from ftrun.escape import one_line
from ftrun.interruption import Interruption
from ftrun.project import ROOT
from ftrun.protocol import Channel, conforms, decode
from ftrun.twin import DESCRIPTION
from ftsafety.errors import SafetyError
from ftsafety.repro import outcome
from ftsafety.repro.arguments import PROGRAM
from ftsafety.repro.campaign import AllRuns, Campaign, RoundsPlan, Runs, every_outcome, twin_of
from ftsafety.repro.options import ReproOptions
from ftsafety.repro.outcome import Kind
from ftsafety.repro.packages import Packages, differences
from ftsafety.repro.progress import ProgressPrinter

BRIDGE = ROOT / "native" / "cluster" / "dask_bridge.py"
CLOSE_SECONDS = 10.0
# The containers of a project serve one client at a time.
CONTAINED = ("flock", "compose.yaml", "docker", "compose", "run", "--rm", "-T", "ft-repro")
LONGEST_NAME = 100
ANSWER = {
    "source": str,
    "twins": {str: DESCRIPTION},
    "added": {str: {str: str}},
    "missing": {str: str},
    "remarks": [str],
    "runs": {str: {"missing": (str, type(None)), "outcomes": [outcome.FORM]}},
}


class NoCluster(SafetyError, TwinError):
    """There is no cluster to connect to, or it cannot be used from here;
    the message says what to do.
    """


@contextlib.contextmanager
def connected(
    python: str, hello: dict, interruption: Interruption, until: float
) -> Iterator[Iterator[dict]]:
    """Context manager: start the bridge, send it *hello*, and return an iterator over its messages.

    The iterator raises Interrupted, TwinError if the bridge has ended, and TimeoutError at
    time.monotonic() *until*. At the end of the block, all tasks are cancelled.
    """
    parent_socket, bridge_socket = socket.socketpair()
    with tempfile.TemporaryFile() as errors, bridge_socket:
        # In a session of its own: Ctrl-C at a terminal is for this process,
        # which then closes the socket.
        bridge = subprocess.Popen(
            [python, str(BRIDGE)],
            stdin=bridge_socket.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        bridge_socket.close()

        def messages() -> Iterator[dict]:
            channel = Channel(parent_socket)
            watch = {interruption.fileno(): interruption.wanted}
            try:
                channel.send(hello)
                while True:
                    # A wait of more than a month is more than a selector takes.
                    seconds = min(max(0.0, until - time.monotonic()), 1e6)
                    message = channel.receive(watch, seconds)
                    interruption.check()
                    if message is None:
                        raise TimeoutError
                    yield message
            except Disconnected as error:
                bridge.wait()
                errors.seek(0)
                why = last_lines(errors.read(), 2)
                raise TwinError(f"the client of the Dask cluster has ended: {why}") from error

        try:
            yield messages()
        finally:
            parent_socket.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                bridge.wait(CLOSE_SECONDS)
            bridge.kill()  # if the scheduler does not answer, it cancels when the connection ends
            bridge.wait()


class ClusterCampaign(Campaign):
    """Campaign whose runs are made by the workers of a cluster. Owned by one thread."""

    def __init__(
        self, options: ReproOptions, interruption: Interruption, progress: ProgressPrinter
    ):
        """Prepare the runs of the script in *options*,
        which also name the cluster; none is started.
        """
        deadline = time.monotonic() + options.budget
        super().__init__(options.script, {}, options.limits, progress.update, deadline)
        self._options = options
        self._interruption = interruption
        self._note = progress.note
        self._source = source_hash()
        self._folder = options.dask_folder or str(ROOT)
        self.descriptions: dict[str, dict] = {}
        """By twin, its description on the first node.
        The twins of all other nodes have to be equal.
        """
        self.packages = Packages()
        """The packages that the workers install for the script."""
        self.nodes: dict[str, str] = {}
        """The processor of each node that has made runs,
        by the node's name, the first node first.
        """
        self._done = 0
        """Number of rounds that were made."""

    def _rounds(self, result: AllRuns, order: list[str], plan: RoundsPlan) -> None:
        """Make the rounds. Raises NoCluster; Interrupted or TwinError if no task had a result."""
        self._done = 0
        try:
            with self._connected(order, plan) as messages:
                self._collect(messages, result, plan)
        except TimeoutError:
            why = f"the {self._options.budget:g} s for all runs (--budget) were used up"
            if not self.descriptions:
                raise TwinError(f"--dask {self._options.dask}: no worker was free: {why}") from None
            self._stop(plan, why)
        except (Interrupted, TwinError) as error:
            if not self.descriptions:
                raise
            why = f"interrupted ({error})" if isinstance(error, Interrupted) else str(error)
            self._stop(plan, why)

    def _stop(self, plan: RoundsPlan, why: str) -> None:
        self.stopped = f"ended after {self._done} of {plan.repeat} rounds: {why}"

    def _collect(self, messages: Iterator[dict], result: AllRuns, plan: RoundsPlan) -> None:
        """Add the runs of the tasks to *result*. Raises TwinError,
        also if more rounds are lost than made.
        """
        lost = 0
        output = ""
        while self._done + lost < plan.repeat:
            message = next(messages)
            if "piece" in message:
                output += message["piece"]
            elif "gone" in message:
                raise TwinError(one_line(message["gone"]))
            elif "lost" in message:
                lost += message["rounds"]
                self._lose(result, lost, one_line(message["lost"]), plan)
            else:
                self._take(message, output, result, plan)
                output = ""
                if plan.enough(result, self._done) or not any(every_outcome(result)):
                    break

    def _lose(self, result: AllRuns, lost: int, why: str, plan: RoundsPlan) -> None:
        """Note that *lost* rounds are missing; raises TwinError if fewer were made."""
        if lost > self._done:
            raise TwinError(why)
        for runs in result.values():
            runs.missing = f"{lost} of {plan.repeat} rounds were lost: {why}"

    def _take(self, message: dict, output: str, result: AllRuns, plan: RoundsPlan) -> None:
        """Add the runs of a task that has ended to *result*; raises TwinError if they are no use.

        *message*: the bridge's message about its end. *output*: the output of the task.
        """
        node = one_line(message["node"])[:LONGEST_NAME]
        answer = self._answer(node, output, message["error"], result)
        added = [_runs(node, config, answer["runs"][config]) for config in result]
        self._compare(node, answer)
        for runs in added:
            self._add(runs, result[runs.config], plan)
        self._done += message["rounds"]

    @contextlib.contextmanager
    def _connected(self, order: list[str], plan: RoundsPlan) -> Iterator[Iterator[dict]]:
        """Context manager: have the cluster make the runs; return an iterator over the messages
        about the tasks.
        """
        address = self._options.dask
        python = str(self._options.dask_python)
        hello = self._hello(order, plan)
        with connected(python, hello, self._interruption, self._deadline) as messages:
            first = next(messages)
            if "error" in first:
                raise NoCluster(f"--dask {address}: {one_line(first['error'])}")
            if not self.descriptions:
                self._note(f"{PROGRAM}: {_have(first['threads'])} {address}")
            yield messages

    def _hello(self, order: list[str], plan: RoundsPlan) -> dict:
        """Return the message that asks the bridge for the runs."""
        # The script goes with its arguments and files;
        # what is left is for the task's own ./twins repro.
        options = replace(
            self._options,
            configs=tuple(order),
            threads=plan.threads,
            shrink_threads=False,
            module=None,
            arguments=(),
            beside=(),
            stdin=None,
            dask=None,
            dask_folder=None,
            walls=False,
        )
        command = [*CONTAINED, "--task"]
        if not self._options.walls:
            command = [os.path.join(self._folder, "twins"), "repro", "--task"]
        return {
            "address": self._options.dask,
            "command": command,
            "folder": self._folder,
            "rounds": plan.repeat,
            "request": {
                "source": self._source,
                "script": self.script.as_json(),
                "options": options.command_line(),
            },
        }

    def _add(self, runs: Runs, total: Runs, plan: RoundsPlan) -> None:
        """Add the runs of a task to the *total* of their configuration."""
        last = plan.repeat - 1
        for number, run in enumerate(runs.outcomes):
            if run.kind is Kind.GIL:
                if runs.config in self.forced_off:
                    continue  # each task finds for itself that an import turns the GIL on
                self.forced_off.add(runs.config)
            total.outcomes.append(run)
            done = min(self._done + number, last)
            self._progress(plan.title, done, plan.repeat, runs.config, run)
        total.forced_off = runs.config in self.forced_off
        total.missing = runs.missing or total.missing

    def _answer(self, node: str, output: str, error: str, configs: Collection[str]) -> dict:
        """Return the answer of a task. Raises TwinError if *node* cannot make runs, or the answer
        has another form.

        *output*: the output of the task; if it is empty, *error* is the reason.
        """
        answer: object = None
        with contextlib.suppress(ValueError):
            answer = decode(output)
        if not isinstance(answer, dict) or "source" not in answer:
            raise TwinError(f"{node}: {one_line(error) or 'a task wrote nothing'}")
        if answer["source"] != self._source:
            update = f"update {self._folder} on that node"
            raise TwinError(f"{node} has other sources of this project than this program: {update}")
        if not (conforms(answer, ANSWER) and _is_about(answer, configs)):
            raise TwinError(f"{node}: its answer has another form")
        return answer

    def _compare(self, node: str, answer: dict) -> None:
        """Raise TwinError if *node* differs from the first node."""
        twins = answer["twins"]
        added = answer["added"]
        if not self.descriptions:
            self.descriptions = twins
            self.packages = Packages(added, answer["missing"], answer["remarks"])
        description = next(iter(twins.values()))
        self.nodes.setdefault(node, one_line(description["cpu"]["model"]))
        first = next(iter(self.nodes))
        for name, description in twins.items():
            versions = _versions(description, added.get(name, {}))
            expected = _versions(self.descriptions[name], self.packages.added.get(name, {}))
            if versions != expected:
                which = differences({first: expected, node: versions}) or "other packages"
                raise TwinError(
                    f"{node} is not equal to {first}, in the twin {name}: {one_line(which)}"
                )


def _have(threads: int) -> str:
    return f"{threads} threads of the workers at" if threads else "waiting for workers of"


def _is_about(answer: dict, configs: Collection[str]) -> bool:
    """Return True if a task's answer is about these configurations and their twins."""
    twins = set(map(twin_of, configs))
    return set(answer["runs"]) == set(configs) and set(answer["twins"]) == twins


def _runs(node: str, config: str, values: dict) -> Runs:
    """Return the runs of *config* in the answer of *node*;
    raises TwinError if an outcome is invalid.
    """
    try:
        outcomes = [replace(outcome.from_json(fields), node=node) for fields in values["outcomes"]]
    except ValueError as error:
        raise TwinError(f"{node}: {error}") from error
    missing = values["missing"] and one_line(values["missing"])
    if missing and outcomes:
        missing = f"{node}: {missing}"
    return Runs(config, outcomes, missing)


def _versions(description: Mapping, added: Mapping[str, str]) -> dict[str, str]:
    """Return all that has to be equal on all nodes: the interpreter and the packages of a twin."""
    python = description["interpreter"]
    versions = {**description["packages"], **added}
    for name in ("version", "build", "compiler", "config_args", "upstream_fixes"):
        versions[name] = str(python[name])
    return versions
