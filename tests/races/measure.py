"""What `./twins audit` says of the planted races and of the sound datasets: recall and false alarms.

    python3 tests/races/measure.py [--out FILE] [--threadcheck DIR] [NAME...]

Each dataset is audited through the command line, one after the other. With --threadcheck, each is also given to
threadcheck, as a script that loads the dataset in four threads: `threadcheck scan` reads it, `threadcheck run`
executes it. To install threadcheck into DIR:

    pip install --target DIR --no-deps --python-version 3.13 --only-binary :all: threadcheck==0.0.1.2
"""

import argparse
import ast
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
DRIVER = (FOLDER / "threads_driver.py").read_text()


def wilson(hits, total, z=1.959964):
    """The share of hits, with Wilson's 95% interval."""
    if not total:
        return "none"
    share = hits / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total)) / (1 + z * z / total)
    return f"{hits} of {total}: {share:.0%} ({max(0, middle - half):.0%} to {min(1, middle + half):.0%})"


def command(arguments, seconds, **variables):
    """Exit status (None: it took too long), and its output."""
    try:
        done = subprocess.run(
            arguments, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout + done.stderr
