"""``python -m ftsafety.audit``."""

import sys

from ftsafety.audit.cli import main

sys.exit(main())
