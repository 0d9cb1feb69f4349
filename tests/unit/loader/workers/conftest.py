"""The start of programs that end or fork while they have workers."""

import pytest

PRELUDE = """
import gc, os, subprocess, sys, threading, time, warnings
import multiprocessing
import torch
from torch.utils.data import IterableDataset, get_worker_info
from ftloader import DataLoader

warnings.simplefilter("ignore", DeprecationWarning)  # of fork() in a process with threads

class Data:
    def __init__(self, seconds=0):
        self.seconds = seconds
    def __len__(self):
        return 100000
    def __getitem__(self, index):
        time.sleep(self.seconds)
        return index

def loader(dataset=None, **arguments):
    arguments = {"num_workers": 2, "worker_method": "thread"} | arguments
    return DataLoader(dataset or Data(), **arguments)

def first(dl, count=3):
    iterator = iter(dl)
    return [next(iterator).flatten().tolist() for _ in range(count)]

def status(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""


@pytest.fixture
def run(run_program):
    return lambda body: run_program(PRELUDE + body)
