"""Reads a modem with the tools of ModemManager or libqmi, which share the port with other programs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from collectors._ready import ready
from multitracer.errors import PreflightError
from multitracer.protocols.modem.conversation import CommandAnswer
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collectors._stop import Stop

TOOLS = ("mmcli", "qmicli")
_PATIENCE_NS = 5 * NS_PER_S
_MOST_BYTES = 1 << 16
_LIST_S = 3.0
_OBJECT = re.compile(rb"/org/freedesktop/ModemManager1/Modem/\d+")


class AnswerLog(Protocol):
    """The log to which answers are written."""

    def answer(self, answer: CommandAnswer) -> None:
        """Write an answer."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A command-line tool, and the modem that it reads."""

    name: str
    modem: str

    def commands(self) -> tuple[list[str], list[str]]:
        """Return the commands that run once at the start, and those that run in each round."""
        if self.name == "mmcli":
            about = ["mmcli", "-m", self.modem]
            return [*about, "--signal-setup=1"], [*about, "--signal-get", "-J"]
        device = "/dev/cdc-wdm0" if self.modem == "any" else self.modem
        about = ["qmicli", "-d", device, "--device-open-proxy"]
        return [*about, "--get-service-version-info"], [*about, "--nas-get-signal-info"]


class ToolModem:
    """A modem that a tool reads; it has the methods of a SerialModem.

    Raises
    ------
    PreflightError
        If the tool is not installed.
    """

    def __init__(self, tool: Tool, log: AnswerLog, stop: Stop) -> None:
        if shutil.which(tool.name) is None:
            package = {"mmcli": "modemmanager", "qmicli": "libqmi-utils"}[tool.name]
            raise PreflightError(f"{tool.name} is not installed; run `apt install {package}`")
        self._first, self._each = tool.commands()
        self._log = log
        self._stop = stop
        self._is_ready = False

    def ask_all(self) -> str | None:
        """Run the tool; return the reason if there was no answer, else None."""
        if not self._is_ready:
            self._is_ready = self._run(self._first) is None
        why = self._run(self._each)
        if why is None:
            ready()
        return why

    def listen(self, until_ns: int) -> bool:
        """Wait until a time; return False if the collector must end."""
        return self._stop.wait(until_ns)

    def _run(self, command: list[str]) -> str | None:
        asked_ns = time.monotonic_ns()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            output, is_complete = self._output_of(child, asked_ns + _PATIENCE_NS)
        finally:
            child.kill()
            child.wait()
            assert child.stdout is not None
            child.stdout.close()
        result = "OK" if is_complete and child.returncode == 0 else ""
        if output:
            answer = CommandAnswer(" ".join(command), output, result, asked_ns, time.monotonic_ns())
            self._log.answer(answer)
        if not is_complete:
            return "silent"
        return None if result else "tool failed"

    def _output_of(self, child: subprocess.Popen[bytes], until_ns: int) -> tuple[bytes, bool]:
        """Return the output of the tool, and whether it is complete."""
        assert child.stdout is not None
        output = b""
        while self._stop.wait(until_ns, readable=[child.stdout.fileno()]) and time.monotonic_ns() < until_ns:
            chunk = os.read(child.stdout.fileno(), _MOST_BYTES)
            if not chunk:
                return output, _has_ended(child)
            output = (output + chunk)[:_MOST_BYTES]
        return output, False


def _has_ended(child: subprocess.Popen[bytes]) -> bool:
    try:
        child.wait(1.0)
    except subprocess.TimeoutExpired:
        return False
    return True


def manages_a_modem() -> str | None:
    """Return "mmcli" if ModemManager runs and has a modem, otherwise None."""
    if shutil.which("mmcli") is None:
        return None
    try:
        done = subprocess.run(["mmcli", "-L"], capture_output=True, check=False, timeout=_LIST_S)
    except subprocess.TimeoutExpired:
        return None
    return "mmcli" if _OBJECT.search(done.stdout) else None
