"""The rehearsal's modem and receiver as processes, told what to do and asked whether it is done."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATIENCE_S = 90.0


class Fake:
    """A device on a pseudo-terminal; `do` returns when it is done."""

    def __init__(self, child: subprocess.Popen[str], link: Path) -> None:
        self._child = child
        self.link = link

    def do(self, what: str, **more: Any) -> None:
        """Let something happen."""
        self._tell({"do": what, **more})

    def set(self, **values: Any) -> None:
        """Set values of the radio."""
        self._tell({"set": values})

    def _tell(self, event: dict[str, Any]) -> None:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(event) + "\n")
        self._child.stdin.flush()
        assert json.loads(self._child.stdout.readline()) == {"did": event}


@contextmanager
def device(kind: str, link: Path, *options: object) -> Iterator[Fake]:
    """Run `multitracer.lab.rehearsal.KIND` beside the body, from when its port is there."""
    argv = [sys.executable, "-m", f"multitracer.lab.rehearsal.{kind}", "--link", link, "--control", *options]
    child = subprocess.Popen(
        list(map(str, argv)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        first = child.stdout.readline()
        assert first, child.communicate()[1]
        yield Fake(child, link)
    finally:
        child.terminate()
        child.communicate(timeout=PATIENCE_S)


@contextmanager
def modem(link: Path, profile: str, *options: object) -> Iterator[Fake]:
    """Run a modem that answers at once and says only the values that it is told."""
    quick = ("--told", "--delay", 0.001, 0.003, "--baud", 1_000_000)
    with device("modem", link, "--profile", profile, *quick, *options) as fake:
        yield fake
