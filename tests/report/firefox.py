"""A headless Firefox, driven over WebDriver BiDi, that notes what a page complains of and fetches."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Any, Self

import websocket

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EXECUTABLE = shutil.which("firefox-esr") or shutil.which("firefox")
_LISTENS = "WebDriverBiDiServer.json"
"""Which a Firefox writes into its profile."""
_PATIENCE_S = 120.0
"""A first start makes a profile; a busy machine takes long. Not measured."""


class Firefox:
    """One tab of a headless Firefox; use as a context manager.

    `complaints` holds warnings and errors of the console and uncaught exceptions, `requests` the addresses
    that the page asked for.
    """

    def __init__(self, profile: Path) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._number = 0
        self._process = subprocess.Popen(
            [str(EXECUTABLE), "--headless", "--profile", str(profile), "--remote-debugging-port", "0"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"HOME": str(profile)},  # as root it refuses another user's
        )
        listens = json.loads(self._until(lambda: _text(profile / _LISTENS)))
        url = f"ws://{listens['ws_host']}:{listens['ws_port']}/session"
        self._socket = websocket.create_connection(url, timeout=_PATIENCE_S, suppress_origin=True)
        self.call("session.new", capabilities={})
        self.call("session.subscribe", events=["log.entryAdded", "network.beforeRequestSent"])
        self._tab = self.call("browsingContext.getTree")["contexts"][0]["context"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.call("browser.close")
        except (websocket.WebSocketException, OSError):
            self._process.terminate()
        self._socket.close()
        self._process.wait(timeout=20)

    @staticmethod
    def _until(ready: Callable[[], Any]) -> Any:
        """Call `ready` until it returns something true, which is returned."""
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            if found := ready():
                return found
            time.sleep(0.05)
        raise AssertionError(f"waited {_PATIENCE_S:.0f} s in vain")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command, take note of the events before its answer, and return the answer."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._number:
                assert message["type"] == "success", f"{method}: {message}"
                return dict(message["result"])
            self._note(message)

    def _note(self, event: dict[str, Any]) -> None:
        what = event.get("params", {})
        match event.get("method"):
            case "log.entryAdded" if what["level"] in {"warn", "error"}:
                self.complaints.append(str(what["text"]))
            case "network.beforeRequestSent":
                self.requests.append(what["request"]["url"])

    def open(self, page: Path) -> None:
        """Load a page and wait until it has loaded."""
        self.call("browsingContext.navigate", context=self._tab, url=page.resolve().as_uri(), wait="complete")

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression, a text, number or truth; a promise is awaited."""
        answer = self.call("script.evaluate", expression=expression, target={"context": self._tab}, awaitPromise=True)
        assert answer["type"] == "success", f"{expression}: {answer}"
        return answer["result"].get("value")

    def wait(self, expression: str) -> Any:
        """Evaluate again and again until the value is true; return it."""
        return self._until(lambda: self.evaluate(expression))


def _text(path: Path) -> str:
    return path.read_text("utf-8") if path.exists() else ""
