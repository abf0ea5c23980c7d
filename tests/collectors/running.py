"""Runs a collector as users do, as a process of its own, and reads what it wrote."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PATIENCE_S = 90.0
COMMENT = "# multitracer "


def command(name: str, *options: object) -> list[str]:
    return [sys.executable, "-m", f"collectors.{name}", *map(str, options)]


def run(name: str, *options: object) -> subprocess.CompletedProcess[str]:
    """Run a collector to its own end."""
    return subprocess.run(command(name, *options), capture_output=True, text=True, check=False, timeout=PATIENCE_S)


@contextmanager
def running(name: str, log: Path, *options: object, is_log: bool = True) -> Iterator[subprocess.Popen[str]]:
    """Run a collector beside the body, from when its log has a clock record if it is a log; kill it afterwards."""
    argv = command(name, "-o", log, *options)
    child = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    try:
        until(
            lambda: not is_log or child.poll() is not None or (log.exists() and b'"kind":"clock"' in log.read_bytes())
        )
        yield child
    finally:
        child.kill()
        child.communicate()


def end(child: subprocess.Popen[str], number: int = signal.SIGTERM) -> int:
    """Send a signal and return the exit status."""
    child.send_signal(number)
    return child.wait(PATIENCE_S)


def until(condition: Callable[[], Any]) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def records(log: Path, *kinds: str) -> list[dict[str, Any]]:
    """Return the whole JSON records of a log, of some kinds or all."""
    lines = log.read_text().splitlines(keepends=True)
    texts = [text.removeprefix(COMMENT) for text in lines if text.endswith("\n")]
    every = [json.loads(text) for text in texts if text.startswith("{")]
    return [record for record in every if not kinds or record["kind"] in kinds]


@contextmanager
def connection(address: str = "127.0.0.1", *, port: int = 0) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Make a TCP connection on this host: the client's socket and the accepted one."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server((address, port), family=family))
        client = stack.enter_context(socket.create_connection(server.getsockname()[:2]))
        accepted, _ = server.accept()
        yield client, stack.enter_context(accepted)
