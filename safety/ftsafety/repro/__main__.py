"""Entry point of ``python -m ftsafety.repro``."""

import sys

from ftsafety.repro import cli, task

sys.exit(task.main(sys.argv[1:]) if "--task" in sys.argv else cli.main())
