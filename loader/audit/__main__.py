"""``python -m loader.audit MODULE:OBJECT``."""

import sys

from loader.audit.cli import main

if __name__ == "__main__":
    sys.exit(main())
