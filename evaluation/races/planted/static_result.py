"""Dates of photos from the C library's gmtime(), which gives all threads a pointer
to one and the same struct.
"""

import ctypes

import numpy as np
from torch.utils.data import Dataset


class Tm(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int)
        for name in ("sec", "min", "hour", "mday", "mon", "year", "wday", "yday", "isdst")
    ]
    _fields_ += [("gmtoff", ctypes.c_long), ("zone", ctypes.c_char_p)]


gmtime = ctypes.CDLL(None).gmtime
gmtime.restype = ctypes.POINTER(Tm)
gmtime.argtypes = [ctypes.POINTER(ctypes.c_long)]


class PhotoDates(Dataset):
    def __init__(self, seconds):
        self.seconds = seconds

    def __len__(self):
        return len(self.seconds)

    def __getitem__(self, index):
        date = gmtime(ctypes.c_long(int(self.seconds[index]))).contents
        return np.array([date.year + 1900, date.mon + 1, date.mday, date.hour, date.min, date.sec])


dataset = PhotoDates(np.random.default_rng(0).integers(0, 2_000_000_000, 800))
