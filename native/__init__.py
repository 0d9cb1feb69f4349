"""`./twins`: builds the twins on this machine, without Docker, and runs commands in them.

The twins are two builds of CPython with the same packages, one free-threaded (ft) and one with the GIL (gil). This
package runs on Python 3.9 with the standard library alone, since all other packages are installed by its builds.
"""


class TwinsError(Exception):
    """Problem that the user can solve; the message says how. The program ends with `exit_code`."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code
