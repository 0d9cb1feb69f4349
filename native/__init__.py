"""`./twins`: builds the twins on this machine, without Docker, and runs commands in them.

This package runs on Python 3.9 or later with the standard library alone: its builds install all
else. The terms:

- twin: a CPython, free-threaded (ft) or with the GIL (gil), in an environment; both twins have the
  same packages
- environment: a virtual environment; environment *variables* are always called that
- optimised build: with profile-guided optimisation (PGO); plain build: without
- series: CPython's version without its last number, such as "3.13"
"""


class TwinsError(Exception):
    """Problem that the user can solve; the message says how. The program ends with `exit_code`."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code
