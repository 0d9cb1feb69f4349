"""The entry point of ``python -m ftbench``."""

import sys


def main() -> int:
    """Run the command of ``sys.argv``; return its exit status, or 130 after Ctrl-C before the start
    of the run.
    """
    try:
        from ftbench import cli

        return cli.main()
    except KeyboardInterrupt:
        print("./twins bench: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
