import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

try:
    from native.cli import main

    sys.exit(main())
except KeyboardInterrupt:  # during an import
    print("./twins: interrupted", file=sys.stderr)
    sys.exit(130)
