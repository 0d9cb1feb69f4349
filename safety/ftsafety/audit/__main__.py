"""Entry point of ``python -m ftsafety.audit``."""

import sys

try:
    from ftsafety.audit.cli import main

    sys.exit(main())
except KeyboardInterrupt:  # during an import
    print("./twins audit: interrupted", file=sys.stderr)
    sys.exit(130)
