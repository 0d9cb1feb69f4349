"""Entry point of ``python -m ftsafety.repro``."""

import sys

from ftsafety.repro import batch, cli

sys.exit(batch.main(sys.argv[1:]) if "--batch" in sys.argv else cli.main())
