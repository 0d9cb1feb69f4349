"""A trial of several ranks (--ranks): a torchrun job,
whose ranks measure one candidate in the same turns.

``python -m ftbench.trial.job N`` has the dialogue of ftbench.trial.child with the controller. The
main thread runs torchrun, which starts N ranks (ftbench.trial.child), and ends all of them if one
fails. A second thread passes each line of the controller on to all ranks, and combines the ranks'
answers. If this process ends, the kernel ends the ranks (ftrun.parent_death).
"""

import itertools
import json
import os
import secrets
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, Listener, wait
from operator import itemgetter
from statistics import fmean, harmonic_mean
from typing import NamedTuple, NoReturn

from ftbench.machine.usage import cpu_seconds, tree_usage
from ftbench.measure.ranks import KEY, address
from ftbench.plan.scenario import TrialError
from ftbench.trial.child import ControllerPipe
from ftbench.trial.process import how_it_ended
from ftbench.trial.reasons import MARK, reason_of
from ftrun.configurations import command
from ftrun.parent_death import die_with_parent
from ftrun.supervise import Completed

# For torchrun to end all ranks when one has failed: it looks ten times a second.
TORCHRUN_SECONDS = 60.0


def together(results: Sequence[dict]) -> dict:
    """Combine the results of all ranks, in the order of the ranks, into one result of a trial.

    A turn's rate (samples/s) is the sum of the ranks' rates. A turn's time is the time that loading
    the samples of all ranks takes at this rate. Checksums are in the order of the batches: the
    first batch of each rank, the second of each rank, and so on. Distributions are left out. Other
    items that cannot be combined are taken from rank 0. Raises TrialError if there are no turns, or
    for a metric that several ranks cannot measure.
    """
    first = results[0]
    turns = len(results[0]["turn_seconds"])
    if not turns:
        raise TrialError(
            "this measurement has no turns, in which several ranks could load together: leave "
            "out --ranks"
        )
    seconds = list(map(harmonic_mean, _by_position("turn_seconds", results)))
    samples = sum(map(itemgetter("samples"), results))
    rate = samples / turns / fmean(seconds)
    rates = [result["samples"] / turns / fmean(result["turn_seconds"]) for result in results]
    return {
        **first,
        "metrics": {**_metrics(results, rate, rates), "slowest_rank": min(rates)},
        "samples": samples,
        "batches": sum(map(itemgetter("batches"), results)),
        "rows": list(itertools.chain.from_iterable(_by_position("rows", results))),
        "turn_seconds": seconds,
        "turn_began": list(map(min, _by_position("turn_began", results))),
        "distributions": {},
        "others": list(map(together, _by_position("others", results))),
    }


def _by_position(name: str, results: Sequence[dict]) -> Iterator[tuple]:
    """Yield the ranks' values at each position of their lists called *name*."""
    return zip(*(result.get(name, ()) for result in results), strict=True)


def _metrics(results: Sequence[dict], rate: float, rates: Sequence[float]) -> dict[str, float]:
    """Return the metrics of all ranks together. *rate* (samples/s) is that of all, *rates* are
    those of each.
    """
    combine: dict[str, Callable[[list[float]], float]] = {
        "throughput": lambda values: rate,
        "gb_per_s": lambda values: rate * values[0] / rates[0],
        "overhead_us": lambda values: 1e6 / rate,
        "cpu_per_1000": fmean,
        "time_to_first_batch": max,
        "memory_mib": max,  # each rank has that of the whole job
    }
    names = list(results[0]["metrics"])
    if unknown := [name for name in names if name not in combine]:
        raise TrialError(f"several ranks cannot measure {', '.join(unknown)}: leave out --ranks")
    metrics = {}
    for name in names:
        metrics[name] = combine[name]([result["metrics"][name] for result in results])
    return metrics


class ConnectedRank(NamedTuple):
    """A connected rank: its number, and the id of its process."""

    number: int
    pid: int


class Job:
    """Connections of a trial to its ranks and to the controller. The main thread uses only `name`,
    `lost` and `end`.
    """

    def __init__(self, ranks: int, controller: ControllerPipe):
        self._ranks, self._controller = ranks, controller
        self.name = f"ft-bench-{os.getpid()}-{secrets.token_hex(4)}"
        key = secrets.token_bytes(16)
        os.environ[KEY] = key.hex()
        self._listener = Listener(address(self.name), "AF_UNIX", backlog=ranks, authkey=key)
        self._connections: dict[Connection, ConnectedRank] = {}
        self.lost: int | None = None
        """Number of the first rank whose connection ended;
        read by the main thread to say which rank failed.
        """

    def conduct(self) -> None:
        """Pass lines between controller and ranks until the trial ends;
        end this process if the trial fails.
        """
        try:
            self._conduct()
        except TrialError as error:
            self.end(f"{MARK}{error}")
        except Exception:
            self.end(traceback.format_exc())

    def end(self, why: str) -> NoReturn:
        """Write *why* the trial failed to stderr, and end this process and its ranks."""
        self._controller.fail(why)
        os._exit(1)

    def _conduct(self) -> None:
        while len(self._connections) < self._ranks:
            connection = self._listener.accept()
            hello = json.loads(connection.recv_bytes())
            self._connections[connection] = ConnectedRank(hello["rank"], hello["pid"])
        while line := self._controller.hear():
            if line.strip():  # the request
                line = json.dumps({**json.loads(line), "parent": os.getpid()})
            answers = self._ask(line)
            while "meet" in answers[0]:
                memory = None
                if answers[0]["memory"]:
                    memory = tree_usage().total
                values = list(map(itemgetter("meet"), answers))
                answers = self._ask(json.dumps({"met": values, "memory": memory}))
            if "waiting" not in answers[0]:
                self._controller.tell(together(answers))
                return
            self._controller.tell({"waiting": True, "own_seconds": cpu_seconds()})
        raise TrialError("the parent no longer wants this trial")

    def _ask(self, message: str) -> list[dict]:
        """Send a message to all ranks at once; return their answers, in the order of the ranks."""
        for connection, rank in self._connections.items():
            try:
                connection.send_bytes(message.encode())
            except OSError:
                self._lose(rank)
        answers: dict[int, dict] = {}
        silent = set(self._connections)
        while silent:
            for connection in silent.intersection(wait(list(silent))):
                silent.remove(connection)
                rank = self._connections[connection]
                answers[rank.number] = self._answer(connection, rank)
        return [answers[number] for number in range(self._ranks)]

    def _answer(self, connection: Connection, rank: ConnectedRank) -> dict:
        """Return the rank's answer; end this process if the rank failed, was lost or cannot
        measure.
        """
        try:
            answer = json.loads(connection.recv_bytes())
        except (EOFError, OSError):
            self._lose(rank)
        if "failed" in answer:
            self._fail(rank, answer["failed"])
        if "unavailable" in answer:
            self._controller.tell(answer)
            os._exit(0)
        return answer

    def _fail(self, rank: ConnectedRank, text: str) -> NoReturn:
        """End the job because this rank failed; `text` is the rank's traceback,
        or MARK and the reason.
        """
        frames = ""
        if not text.startswith(MARK):
            frames = f"\n{text}"
        self.end(f"{MARK}rank {rank.number} of {self._ranks}: {reason_of(text)}{frames}")

    def _lose(self, rank: ConnectedRank) -> NoReturn:
        """End this process, since the connection of this rank has ended.

        If the rank failed, wait up to TORCHRUN_SECONDS: in that time the main thread ends this
        process with a better reason.
        """
        self.lost = rank.number
        try:
            ended = os.waitid(os.P_PID, rank.pid, os.WEXITED | os.WNOWAIT)
            failed = ended is None or ended.si_status != 0
        except ChildProcessError:  # torchrun has waited for it already
            failed = True
        if failed:
            threading.Event().wait(TORCHRUN_SECONDS)
        self.end(f"{MARK}rank {rank.number} of {self._ranks} ended before its measurement did")


def _first_failed(codes: Mapping[int, int], lost: int | None) -> int:
    """Return the number of the rank that failed first, from the ranks' exit codes and the first
    rank whose connection ended.
    """
    # When a rank has failed, torchrun ends the others with SIGTERM.
    failed = [rank for rank, code in codes.items() if code != -signal.SIGTERM] or [*codes]
    if lost in failed:
        return lost
    return failed[0]


def main() -> int:
    """Run the trial that stdin requests; return the exit status:
    1, with the reason on stderr, if it fails.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent(os.getppid())
    ranks = int(sys.argv[1])
    controller = ControllerPipe()
    job = Job(ranks, controller)
    conductor = threading.Thread(target=job.conduct)
    conductor.start()
    # torchrun sets this to 1 if it is not set, and says so at length.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        from torch.distributed import run
        from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

        arguments = ["--standalone", "--nproc-per-node", str(ranks), "--local-addr", "localhost"]
        arguments += [
            "--log-dir",
            os.devnull,
            "--no-python",
            *command(sys.executable, "ftbench.trial.child"),
            job.name,
        ]
        try:
            run.run(run.parse_args(arguments))
        except ChildFailedError as error:
            codes = {rank: failure.exitcode for rank, failure in error.failures.items()}
            rank = _first_failed(codes, job.lost)
            ended = how_it_ended(Completed(codes[rank], b"", b"", 0.0))
            job.end(f"{MARK}rank {rank} of {ranks} ended too early: {ended}")
    except Exception:
        job.end(traceback.format_exc())
    conductor.join()
    return 0


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    os._exit(status)
