"""The entry point of ``python -m ftbench``."""

import sys

from ftbench.cli import main

if __name__ == "__main__":
    sys.exit(main())
