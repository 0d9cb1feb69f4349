"""The datasets of this folder: where they are, how to load one, and how to compare its samples."""

import importlib.util
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import IterableDataset

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent


def files(names):
    """Those with these names; all without any."""
    found = [path for kind in ("planted", "sound") for path in sorted((FOLDER / kind).glob("*.py"))]
    unknown = set(names) - {path.stem for path in found}
    if unknown:
        raise SystemExit(f"no such dataset: {', '.join(sorted(unknown))}")
    return [path for path in found if not names or path.stem in names]


def load(path):
    """A new dataset: the file is executed again, so that nothing is left of earlier ones."""
    spec = importlib.util.spec_from_file_location(f"case_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    dataset = module.dataset
    return dataset if hasattr(dataset, "__getitem__") or is_iterable(dataset) else dataset()


def is_iterable(dataset):
    return isinstance(dataset, IterableDataset)


def frozen(sample):
    """A sample as a value that can be compared and counted."""
    if isinstance(sample, torch.Tensor):
        sample = sample.detach().numpy()
    if isinstance(sample, np.ndarray):
        return sample.shape, sample.dtype.str, sample.tobytes()
    if isinstance(sample, dict):
        return tuple((key, frozen(value)) for key, value in sorted(sample.items()))
    if isinstance(sample, (list, tuple)):
        return tuple(map(frozen, sample))
    return sample
