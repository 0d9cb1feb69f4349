"""``python -m ftsafety.repro``."""

import sys

from ftsafety.repro.cli import main

if __name__ == "__main__":
    sys.exit(main())
