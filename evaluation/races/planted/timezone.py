"""Meter readings in local time: os.environ["TZ"] is the process's,
so hours are those of another thread's zone.
"""

import os
import time

import numpy as np
from torch.utils.data import Dataset

ZONES = ["UTC0", "EST5EDT", "CET-1CEST", "IST-5:30", "JST-9"]


class Readings(Dataset):
    """24 readings of a meter, with the hour of the day where it stands."""

    def __init__(self, meters):
        self.values = np.random.default_rng(0).random((meters, 24))

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        os.environ["TZ"] = ZONES[index % len(ZONES)]
        time.tzset()
        start = 1_700_000_000 + index * 60
        hours = [time.localtime(start + 3600 * step).tm_hour for step in range(24)]
        return np.array(hours), self.values[index]


dataset = Readings(500)
