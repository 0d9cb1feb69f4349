"""``python -m ftsafety.repro``."""

import sys

from ftsafety.repro.cli import main

sys.exit(main())
