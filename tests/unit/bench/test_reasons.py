"""The reason of a trial that fails, among what else is on its stderr."""

import pytest

from ftbench.trial.process import last_words
from ftbench.trial.reasons import with_reason
from ftrun.supervise import Completed

TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 6, in __getitem__
    raise OSError("picture 6 cannot be read")
OSError: picture 6 cannot be read
in the second folder
"""
OF_A_WORKER = """Traceback (most recent call last):
  File "connection.py", line 395, in _recv
    chunk = read(handle, remaining)
ConnectionResetError: [Errno 104] Connection reset by peer
"""


def first_line(stderr: str, status: int = 1) -> str:
    return last_words(Completed(status, b"", stderr.encode(), 0.0)).partition("\n")[0]


@pytest.mark.parametrize(
    "stderr, reason",
    [
        (with_reason(TRACEBACK), "OSError: picture 6 cannot be read"),
        (TRACEBACK, "OSError: picture 6 cannot be read"),
        (with_reason("trial: rank 1 of 2: enough\n" + TRACEBACK), "rank 1 of 2: enough"),
        (with_reason("trial: the loader gave 2 batches"), "the loader gave 2 batches"),
        (with_reason("no traceback"), "no traceback"),
        ("no traceback", "no traceback"),
    ],
)
def test_tracebacks_around_it_do_not_hide_the_reason(stderr, reason):
    assert first_line(stderr) == reason
    if "trial: " in stderr:
        # Workers that lose the trial, or something before it, write there too.
        assert first_line(f"{stderr}\n{OF_A_WORKER}") == reason
        assert first_line(f"{OF_A_WORKER}{stderr}") == reason


def test_a_process_that_did_not_say_why_is_named_by_its_end():
    assert first_line(OF_A_WORKER, -9) == "killed by signal 9 (out of memory?)"
    assert first_line("") == "exit status 1"
