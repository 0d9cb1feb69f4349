"""A headless Chromium, driven through the DevTools protocol on a pair of pipes.

https://chromedevtools.github.io/devtools-protocol/: commands and answers are JSON objects, each ended by a
zero byte, which the browser reads from descriptor 3 and writes to descriptor 4 (--remote-debugging-pipe).
Nothing but the standard library; one thread, which owns browser, pipes and everything read so far.
"""

import base64
import json
import os
import selectors
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

# For everything that the browser does; a loaded machine takes its time.
PATIENCE = 900.0

OPTIONS = """
    --headless --remote-debugging-pipe --no-sandbox --disable-gpu --disable-dev-shm-usage
    --disable-background-networking --no-first-run --hide-scrollbars --force-color-profile=srgb
""".split()


class BrowserError(Exception):
    """The browser refused, ended or did not answer."""


def find() -> str | None:
    """A browser's executable. Chromium as a snap comes last: it sees no files below /tmp."""
    names = ("google-chrome", "google-chrome-stable", "chromium", "chromium-browser")
    return next((found for name in names if (found := shutil.which(name))), None)


class Browser:
    """One page of a headless browser; a context manager that ends it."""

    def __init__(self, executable: str, profile: Path):
        ours, theirs = os.pipe(), os.pipe()  # (read, write): what we read, what it reads
        # A shell puts the pipes where the browser looks for them.
        script = f'exec "$@" 3<&{theirs[0]} 4>&{ours[1]}'
        self._log = open(profile.with_name(profile.name + ".log"), "w+")  # noqa: SIM115 (closed by close)
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", executable, *OPTIONS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(theirs[0], ours[1]),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        os.close(theirs[0])
        os.close(ours[1])
        self._read, self._write = ours[0], theirs[1]
        self._ready = selectors.DefaultSelector()
        self._ready.register(self._read, selectors.EVENT_READ)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[tuple[str, dict]] = []
        """(method, parameters) of everything that the page reported so far."""

    def __enter__(self) -> "Browser":
        try:
            pages = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]
            target = pages[0]["targetId"] if pages else self.call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._ready.close()
        os.close(self._read)
        os.close(self._write)
        self._log.close()

    def call(self, method: str, **parameters: object) -> dict:
        """Send a command and wait for its answer; events that come meanwhile are kept. Raises BrowserError."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None and not method.startswith("Browser."):
            message["sessionId"] = self._session
        try:
            data = json.dumps(message).encode() + b"\0"
            while data:
                data = data[os.write(self._write, data) :]
        except BrokenPipeError as error:
            raise BrowserError(f"{method}: the browser has ended; {self._said()}") from error
        while True:
            answer = self._message(method)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _said(self) -> str:
        self._log.seek(0)
        return self._log.read()[-2000:]

    def _message(self, method: str) -> dict:
        """The next message; events are noted as well."""
        end = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            if not self._ready.select(end - time.monotonic()):
                raise BrowserError(f"{method}: no answer within {PATIENCE:.0f} s; {self._said()}")
            data = os.read(self._read, 1 << 20)
            if not data:
                raise BrowserError(f"{method}: the browser has ended; {self._said()}")
            self._buffer += data
        text, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(text)
        if "method" in message:
            self.events.append((message["method"], message["params"]))
        return message

    def until(self, method: str, wanted: Callable[[dict], bool] = lambda event: True, place: int = 0) -> dict:
        """Wait for an event whose parameters are *wanted*, after the first *place*; returns its parameters."""
        while True:
            for name, parameters in self.events[place:]:
                if name == method and wanted(parameters):
                    return parameters
            place = len(self.events)
            self._message(method)

    def open(self, page: Path) -> None:
        """Load a file and wait until it has loaded."""
        self.events.clear()
        self.call("Page.navigate", url=page.as_uri())
        self.until("Page.loadEventFired")

    def window(self, width: int, height: int = 900, dark: bool = False) -> None:
        """Give the page a window, a phone's where it is narrow, and a preference for light or dark."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        self.prefer(dark)

    def prefer(self, dark: bool) -> None:
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )

    def run(self, script: str) -> object:
        """The value of an expression in the page; a promise's when it is kept. Raises BrowserError where it throws."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description") or details["text"])
        return result["result"].get("value")

    def problems(self) -> list[str]:
        """Errors, warnings and exceptions of the page so far, and what violates its content security policy."""
        self.run("0")  # what was said before this has arrived then
        found = []
        for method, parameters in self.events:
            if method == "Runtime.exceptionThrown":
                found.append(str(parameters["exceptionDetails"]))
            elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
                found.append(str(parameters["args"]))
            elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                found.append(str(parameters["entry"]))
        return found

    def requests(self) -> list[str]:
        """The addresses that the page asked for beyond itself and what it holds."""
        return [
            parameters["request"]["url"]
            for method, parameters in self.events
            if method == "Network.requestWillBeSent"
            and parameters["request"]["url"].split(":")[0] not in ("file", "data", "blob")
        ]

    def downloads(self, directory: Path) -> None:
        """Let downloads arrive in a directory."""
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(directory), eventsEnabled=True)

    def download(self, click: str) -> None:
        """Run a script that begins a download, and wait until that is complete."""
        before = len(self.events)
        self.run(click)
        done = self.until("Browser.downloadProgress", lambda event: event["state"] != "inProgress", before)
        if done["state"] != "completed":
            raise BrowserError(f"download {done['state']}")

    def screenshot(self, path: Path) -> None:
        """Write what the window shows, as PNG."""
        shot = self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(shot["data"]))
