"""Program that measure.py runs for pyvft: import a script that loads a dataset in threads, and say
if pyvft saw races.

pyvft rewrites what is imported within its context. NumPy, rewritten, cannot be imported (pyvft does
not mangle names of the form __name), so the libraries are imported before.
"""

import sys
from pathlib import Path

import fsspec.implementations.memory  # noqa: F401
import numpy  # noqa: F401
import PIL.ImageFile  # noqa: F401
import pyvft
import torch.utils.data  # noqa: F401
from PIL import ImageDraw  # noqa: F401

path = Path(sys.argv[1])
source = path.read_text().replace('if __name__ == "__main__":', "if True:")
path = path.with_stem(f"imported_{path.stem}")
path.write_text(source)
sys.path.insert(0, str(path.parent))
with pyvft.context():
    __import__(path.stem)
print("pyvft_driver: races" if pyvft.races() else "pyvft_driver: none")
