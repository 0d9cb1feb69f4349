"""``python -m reproducer``."""

import sys

from reproducer.cli import main

if __name__ == "__main__":
    sys.exit(main())
