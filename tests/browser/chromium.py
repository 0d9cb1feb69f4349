"""A headless Chromium that loads a page, evaluates an expression
in it and prints the value (``--dump-dom``).
"""

import html
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OPTIONS = """
    --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-background-networking --no-first-run
    --hide-scrollbars --force-color-profile=srgb --enable-logging=stderr
""".split()

# A page may not run scripts, so another page holds it in a frame, as narrow as a phone if it should
# be, and looks into it. The frame's load event comes before that of the window, which --dump-dom
# waits for.
OUTER = """<!doctype html><meta charset="utf-8"><style>body {{ margin: 0 }} iframe {{ border: 0 }}</style>
<pre id="value"></pre>
<script>
function look(frame) {{
  const window = frame.contentWindow, document = frame.contentDocument;
  const {{getComputedStyle, performance}} = window;
  document.getElementById = document.getElementById.bind(document);
  let value;
  try {{ value = {{value: ({expression})}}; }} catch (error) {{ value = {{error: String(error)}}; }}
  value.requests = performance.getEntriesByType("resource").map((entry) => entry.name);
  globalThis.document.getElementById("value").textContent = JSON.stringify(value);
}}
</script>
<iframe width="{width}" height="900" src="{address}" onload="look(this)"></iframe>
"""


def find() -> str | None:
    """Return the path of a browser. Chromium as a snap comes last: it sees no files below /tmp."""
    names = ("google-chrome", "google-chrome-stable", "chromium", "chromium-browser")
    return next((path for name in names if (path := shutil.which(name))), None)


@dataclass
class Look:
    """One look at a page: the expression's value, what the page logged,
    addresses that it asked for beyond itself.
    """

    value: Any
    logged: list[str]
    requests: list[str]


@dataclass
class Chromium:
    """A browser, which is started for each look; *folder* is for its files."""

    executable: str
    folder: Path

    def look(self, page: Path, expression: str, width: int = 1200, dark: bool = False) -> Look:
        """Return the value of a JavaScript expression in a page of this width. Raises
        AssertionError if it throws.
        """
        outer = self.folder / "outer.html"
        outer.write_text(OUTER.format(expression=expression, width=width, address=page.as_uri()))
        scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
        # Files may look into the frames of others.
        done = self._run(
            "--disable-web-security",
            "--allow-file-access-from-files",
            scheme,
            "--dump-dom",
            outer.as_uri(),
        )
        match = re.search(r'<pre id="value">(.+?)</pre>', done.stdout, re.DOTALL)
        assert match, done.stdout[-2000:] + done.stderr[-2000:]
        answer = json.loads(html.unescape(match[1]))
        assert "error" not in answer, answer["error"]
        logged = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        beyond = [
            name
            for name in answer["requests"]
            if name.split(":")[0] not in ("file", "data", "blob")
        ]
        return Look(answer.get("value"), logged, beyond)

    def screenshot(self, page: Path, path: Path, width: int = 1200) -> None:
        """Write what a window of this width shows, as PNG."""
        self._run(f"--window-size={width},900", f"--screenshot={path}", page.as_uri())

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [
            self.executable,
            *OPTIONS,
            f"--user-data-dir={self.folder / 'profile'}",
            *arguments,
        ]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=900)
