"""What a reader has to know beside the figures: kept in a run's document, and told at once."""

from __future__ import annotations

from ftbench.machine import disturbance
from ftbench.rounds.progress import Display


class Notes:
    """Writes into the document's `warnings` and `skipped`. Owned by the main thread."""

    def __init__(self, document: dict, display: Display):
        self._document, self._display = document, display

    def skip(self, what: str, why: str) -> None:
        """Note what is not measured."""
        self._document["skipped"].append({"what": what, "why": why})
        self._display.note(f"left out: {what}: {why}")

    def warn(self, text: str) -> None:
        """Note what makes figures mean less."""
        self._document["warnings"].append(text)
        self._display.note(f"warning: {text}")

    def mark(self, scenario: str, rounds: list[dict]) -> None:
        """Tell of a round that was disturbed; all of a scenario's are one warning of the document."""
        latest = rounds[-1]["disturbance"]["marks"]
        if latest:
            self._display.note(f"disturbed: {scenario}, round {rounds[-1]['number']}: {', '.join(latest)}")
        before, now = disturbance.warning(scenario, rounds[:-1]), disturbance.warning(scenario, rounds)
        if now:
            self._document["warnings"] = [*(text for text in self._document["warnings"] if text != before), now]
