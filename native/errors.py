"""The one exception of this package."""

from __future__ import annotations


class TwinsError(Exception):
    """Problem that the user can solve; the message says how. The program ends with `exit_code`."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code
