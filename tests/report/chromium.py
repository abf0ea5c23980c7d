"""A headless Chromium, driven over the DevTools protocol, that notes what a page complains of and fetches."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Any, Self

import websocket

if TYPE_CHECKING:
    from pathlib import Path

EXECUTABLE = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
)
_PATIENCE_S = 60.0


class BrowserError(AssertionError):
    """The page raised, or the browser refused."""


class Browser:
    """One tab of a headless Chromium; use as a context manager.

    `complaints` holds console warnings and errors, exceptions and CSP violations; `requests` the URLs
    that the page asked for.
    """

    def __init__(self, profile: Path, *extra_arguments: str) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._traced: str | None = None  # the stream of a trace that has ended
        self._number = 0
        self._profile = profile
        self._process = subprocess.Popen(
            [str(EXECUTABLE), *_ARGUMENTS, f"--user-data-dir={profile}", *extra_arguments, "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._socket = self._connect()
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.call("Browser.close")
        except (websocket.WebSocketException, OSError):
            self._process.terminate()
        self._socket.close()
        self._process.wait(timeout=20)

    def _connect(self) -> websocket.WebSocket:
        port = self.until(self._port)
        browser = websocket.create_connection(f"ws://127.0.0.1:{port[0]}{port[1]}", timeout=_PATIENCE_S)
        self._socket = browser
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        browser.close()
        url = f"ws://127.0.0.1:{port[0]}/devtools/page/{target['targetId']}"
        return websocket.create_connection(url, timeout=_PATIENCE_S)

    def _port(self) -> list[str] | None:
        file = self._profile / "DevToolsActivePort"
        lines = file.read_text().splitlines() if file.exists() else []
        return lines if len(lines) == 2 else None

    def until(self, ready: Any) -> Any:
        """Call `ready` until it returns something true, which is returned; an error after a minute."""
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            if found := ready():
                return found
            time.sleep(0.02)
        raise BrowserError(f"waited {_PATIENCE_S:.0f} s in vain")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command, take note of the events before its answer, and return the answer."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._number:
                if "error" in message:
                    raise BrowserError(f"{method}: {message['error']}")
                return dict(message["result"])
            self._note(message)

    def _note(self, event: dict[str, Any]) -> None:
        what = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(what["exceptionDetails"])[:600])
            case "Runtime.consoleAPICalled" if what["type"] in {"error", "warning", "assert"}:
                self.complaints.append(f"console.{what['type']}: {what['args']}"[:600])
            case "Log.entryAdded" if what["entry"]["level"] in {"error", "warning"}:
                self.complaints.append(what["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(what["request"]["url"])
            case "Tracing.tracingComplete":
                self._traced = what["stream"]

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression; a promise is awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise BrowserError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, expression: str) -> Any:
        """Evaluate again and again until the value is true; return it."""
        return self.until(lambda: self.evaluate(expression))

    def open(self, page: Path | str) -> None:
        """Load a page and wait until it has loaded."""
        url = page if isinstance(page, str) else page.resolve().as_uri()
        if failure := self.call("Page.navigate", url=url).get("errorText"):
            raise BrowserError(f"{url}: {failure}")
        self.wait(f"document.readyState === 'complete' && location.href.startsWith({json.dumps(url)})")

    def resize(self, width: int, height: int, *, scale: float = 1, mobile: bool = False) -> None:
        """Show the page as a screen of `width` x `height` CSS pixels would."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=mobile
        )

    def prefer(self, scheme: str) -> None:
        """Emulate `prefers-color-scheme: light` or `dark`."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def trace(self, *categories: str) -> None:
        """Begin to note what the browser does, by its own tracing."""
        config = {"includedCategories": categories, "excludedCategories": ["*"]}
        self.call("Tracing.start", transferMode="ReturnAsStream", traceConfig=config)

    def traced(self) -> list[dict[str, Any]]:
        """End the trace and return its events."""
        self._traced = None
        self.call("Tracing.end")
        self.until(lambda: self.evaluate("true") and self._traced)
        read: list[dict[str, Any]] = []
        while not read or not read[-1]["eof"]:
            read.append(self.call("IO.read", handle=self._traced, size=1 << 20))
        self.call("IO.close", handle=self._traced)
        return list(json.loads("".join(each["data"] for each in read))["traceEvents"])

    def screenshot(self, path: Path, **options: Any) -> None:
        """Save what the tab shows as PNG; options are those of Page.captureScreenshot."""
        shot = self.call("Page.captureScreenshot", format="png", **options)
        path.write_bytes(base64.b64decode(shot["data"]))
