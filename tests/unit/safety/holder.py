"""Objects of all classes of a module, and a dataset that holds them.
Making them can change the process.
"""

import contextlib
import importlib

import torch

CONNECT = {"imaplib", "unittest.main"}


def objects_of(names):
    """Return an object of each class of these modules that takes no arguments, by module."""
    found = {}
    for name in names:
        if name in CONNECT or ".test" in name or name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(name)
        except (Exception, SystemExit):
            continue  # of another operating system
        for cls in list(vars(module).values()):
            if (
                isinstance(cls, type)
                and (cls.__module__ or "").partition(".")[0] == name.partition(".")[0]
            ):
                with contextlib.suppress(Exception, SystemExit):  # the class takes arguments
                    found.setdefault(name, []).append(cls())
    return found


class Holds(torch.utils.data.Dataset):
    """By module, since the audit enters a part of a long list."""

    def __init__(self, objects):
        self.objects = objects
        self.samples = [value for values in objects.values() for value in values]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        self.last = value = self.samples[index]
        return value
