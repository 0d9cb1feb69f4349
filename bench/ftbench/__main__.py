"""The entry point of ``python -m ftbench``."""

import sys


def main() -> int:
    """Run the command of ``sys.argv``; return the exit status: 130 if Ctrl-C comes before the run has begun."""
    try:
        from ftbench import cli

        return cli.main()
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
