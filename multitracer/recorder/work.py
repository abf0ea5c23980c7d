"""The programs during a recording: COMMAND and a rehearsal's traffic, started after the collectors."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

from multitracer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Work:
    """COMMAND and a rehearsal's traffic, in sessions of their own: the terminal's Ctrl-C is not for them.

    Parameters
    ----------
    command : sequence of str
        What the engineer wants to record; empty for nothing.
    traffic : sequence of str
        What runs beside it without a word, until the recording ends; empty for nothing.
    """

    def __init__(self, command: Sequence[str] = (), traffic: Sequence[str] = ()) -> None:
        self._argv = command
        self._traffic_argv = traffic
        self._command: subprocess.Popen[bytes] | None = None
        self._traffic: subprocess.Popen[bytes] | None = None
        self.began_ns: int | None = None
        """When it was begun (CLOCK_MONOTONIC); None before."""

    @property
    def is_due(self) -> bool:
        """Whether there is a program that was not started yet."""
        return self.began_ns is None and bool(self._argv or self._traffic_argv)

    @property
    def name(self) -> str:
        """The name of the work in a sentence."""
        return "COMMAND" if self._argv else "the rehearsal's traffic"

    @property
    def is_running(self) -> bool:
        """Whether any of its processes lives."""
        return any(child.poll() is None for child in self._children)

    @property
    def status(self) -> int | None:
        """COMMAND's exit status as in a shell, 128 + n after signal n; None while there is none."""
        code = self._command.poll() if self._command else None
        return 128 - code if code is not None and code < 0 else code

    @property
    def end(self) -> str | None:
        """How COMMAND ended, in words; None if it did not end."""
        code = self._command.poll() if self._command else None
        if code is None:
            return None
        if code < 0:
            return f"the command was killed by signal {-code} ({signal.strsignal(-code) or 'unknown'})"
        return f"the command ended with status {code}"

    @property
    def _children(self) -> list[subprocess.Popen[bytes]]:
        return [child for child in (self._command, self._traffic) if child is not None]

    def begin(self, now_ns: int) -> None:
        """Start the programs.

        Raises
        ------
        InputError
            If COMMAND cannot be run.
        """
        self.began_ns = now_ns
        quiet = subprocess.DEVNULL
        if self._traffic_argv:
            # a pipe: it ends with this process, even one that is killed before the child asks who began it
            self._traffic = subprocess.Popen(
                self._traffic_argv, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True
            )
        if not self._argv:
            return
        try:
            self._command = subprocess.Popen(self._argv, stdin=quiet, start_new_session=True)
        except OSError as error:
            raise InputError(f"{self._argv[0]}: {error.strerror}; check the command after --") from error

    def ask_to_end(self) -> None:
        """Ask the living processes to end."""
        self._send(signal.SIGTERM)

    def insist(self) -> None:
        """Kill the processes that still live."""
        self._send(signal.SIGKILL)
        for child in self._children:
            child.wait()
            if child.stdin is not None:
                child.stdin.close()

    def _send(self, number: signal.Signals) -> None:
        for child in self._children:
            if child.poll() is None:
                os.killpg(child.pid, number)
