"""An input that can be asked to end: a pipe that its writer never closes, or a file that is long."""

from __future__ import annotations

import io
import select
import stat
import time
from os import fstat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_LOOK_S = 0.2
"""How often a silent pipe is left to ask whether to end: a user does not see a delay that short."""
_GRACE_S = 2.0
"""How long the writer may go on: tcpdump gets the same Ctrl-C, writes what it holds, and ends at once."""


class Until(io.RawIOBase):
    """The bytes of a file or pipe up to its end, or until `stop` returns True.

    A pipe is read on for up to two seconds then, so that what its writer still holds is not lost.
    """

    def __init__(self, raw: io.RawIOBase, stop: Callable[[], bool]) -> None:
        self.stopped = False
        """Whether it ended before the input did."""
        self._raw, self._stop = raw, stop
        self._is_file = stat.S_ISREG(fstat(raw.fileno()).st_mode)
        self._last_s: float | None = None

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        """Fill some of `buffer`; return how many bytes, 0 only at the end."""
        if self._is_file:
            self.stopped = self.stopped or self._stop()
        while not self.stopped and not self._is_file:
            self.stopped = self._is_over()
            if select.select([self._raw], [], [], 0 if self.stopped else _LOOK_S)[0]:
                break
        return 0 if self.stopped else self._raw.readinto(buffer) or 0

    def _is_over(self) -> bool:
        if self._last_s is None and self._stop():
            self._last_s = time.monotonic() + _GRACE_S
        return self._last_s is not None and time.monotonic() > self._last_s

    def fileno(self) -> int:
        """Return the descriptor of the file."""
        return self._raw.fileno()

    def close(self) -> None:
        """Close the file, too."""
        if not self.closed:
            self._raw.close()
        super().close()
