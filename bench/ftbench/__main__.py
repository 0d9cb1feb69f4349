"""The entry point of ``python -m ftbench``."""

import sys


def main() -> int:
    """Run the command; return its exit status: 130 if Ctrl-C comes during imports or before the run has begun."""
    try:
        from ftbench import cli

        return cli.main()
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
