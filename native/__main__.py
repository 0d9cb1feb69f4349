import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from native.cli import main  # noqa: E402

sys.exit(main())
