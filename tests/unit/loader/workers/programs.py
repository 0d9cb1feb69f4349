"""Parts of the programs that test_exit.py and test_stuck.py run."""

PRELUDE = """
import os, sys, threading, time
import torch
from ftloader import DataLoader

class Data:
    def __init__(self, seconds=0):
        self.seconds = seconds
    def __len__(self):
        return 100000
    def __getitem__(self, index):
        time.sleep(self.seconds)
        return index

def loader(seconds=0, **arguments):
    return DataLoader(Data(seconds), num_workers=2, worker_method="thread", **arguments)
"""

# For Ctrl-C: SIGINT for the process, some time from now.
INTERRUPT = """
import signal
def interrupt():
    time.sleep(0.2)
    print("interrupted", flush=True)
    os.kill(os.getpid(), signal.SIGINT)
def interrupt_soon():
    threading.Thread(target=interrupt, daemon=True).start()
"""
