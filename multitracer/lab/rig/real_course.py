"""The measuring programs of a real run, and its course: when the client begins, how far it is, the end."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from multitracer import __version__
from multitracer.errors import CollectorError
from multitracer.lab.rig.real_host import READY
from multitracer.lab.testbed.children import PYTHON
from multitracer.lab.testbed.driver import why_dropped
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from multitracer.lab.channel.shared.packet_link import PacketLink, Side
    from multitracer.lab.rig.real_host import Task
    from multitracer.lab.testbed.children import Child, Children
    from multitracer.measure.run import Progress

_QUIET_NS = 3 * NS_PER_S
"""Link time in which the last packets may arrive when the client has ended."""
_READ_BYTES = 65_536
_LAST_WORDS = 300


class Course:
    """Follows a run from event to event; a context in which the programs live.

    Parameters
    ----------
    task : Task
        The client's; the server records in the folder of its host.
    children : Children
    link : PacketLink
    progress : callable
        Told after each transaction.
    """

    def __init__(self, task: Task, children: Children, link: PacketLink, progress: Progress) -> None:
        self._link = link
        self._progress = progress
        self._children = children
        self._server = self._started("server", "fixed", replace(task, folder="fixed"), subprocess.DEVNULL)
        self._client = self._started("client", "mobile", task, subprocess.PIPE)
        assert self._client.process.stdout is not None
        self._output = self._client.process.stdout
        os.set_blocking(self._output.fileno(), False)
        self._rest = b""
        self._has_begun = False
        self._ended_ns: int | None = None
        self._problem = ""

    def _started(self, role: str, side: Side, task: Task, stdout: int) -> Child:
        child = self._children.start(
            f"measure-{role}",
            side,
            [PYTHON, "-m", "multitracer.lab.rig.real_host", role],
            version=__version__,
            stdin=subprocess.PIPE,
            stdout=stdout,
        )
        _say(child, task.line())
        self._children.wait(child, lambda: READY in child.words.read_text())
        return child

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._output.close()

    def reason(self, now_ns: int) -> str:
        """Return why the run is over, empty while it is not; asked after every event."""
        if self._link.is_up and not self._has_begun:
            self._has_begun = True
            _say(self._client, b"\n")
        self._hear()
        return self._reason(now_ns)

    def _hear(self) -> None:
        """Tell how far the client is."""
        with suppress(BlockingIOError):
            output = os.read(self._output.fileno(), _READ_BYTES)
            *lines, self._rest = (self._rest + output).split(b"\n")
            if lines:
                done, dropped, total = map(int, lines[-1].split())
                self._progress(done, dropped, total)

    def _reason(self, now_ns: int) -> str:
        if self._link.is_dropped:
            self._problem = f"{why_dropped(self._link)}; the same command continues in a new run of the link"
        elif self._server.has_ended:
            self._problem = f"the server ended: {_last_words(self._server)}"
        elif self._client.has_ended:
            if self._client.process.returncode:
                self._problem = f"the client ended: {_last_words(self._client)}"
            elif self._ended_ns is None:
                self._ended_ns = now_ns
            elif self._link.is_quiet or now_ns > self._ended_ns + _QUIET_NS:
                return "every transaction was done"
        return self._problem

    def check(self) -> None:
        """Raise CollectorError if the run is over because something failed."""
        if self._problem:
            raise CollectorError(f"measurement: {self._problem}")


def _say(child: Child, line: bytes) -> None:
    assert child.process.stdin is not None
    with suppress(BrokenPipeError):  # it has ended, and its last words will be told
        child.process.stdin.write(line)
        child.process.stdin.flush()


def _last_words(child: Child) -> str:
    words = child.words.read_text(errors="replace").strip().removeprefix(READY).strip()
    return words[-_LAST_WORDS:] or f"exit status {child.process.returncode}"
