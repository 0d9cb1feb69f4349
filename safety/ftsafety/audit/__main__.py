"""``python -m ftsafety.audit MODULE:OBJECT``."""

import sys

from ftsafety.audit.cli import main

if __name__ == "__main__":
    sys.exit(main())
