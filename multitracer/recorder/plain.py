"""One line a second, for logs and ssh."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from multitracer.words import printable

if TYPE_CHECKING:
    from typing import TextIO

    from multitracer.recorder.status import Line, Status


class PlainView:
    """Writes one line a second.

    Parameters
    ----------
    stream : text stream
        When it breaks (a closed terminal), the recording goes on without a view.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream: TextIO | None = stream

    @property
    def source(self) -> int | None:
        """Return None: this view reads no keys."""
        return None

    def typed(self) -> str | None:
        """Return None: this view reads no keys."""
        return None

    def warn(self, sentence: str) -> None:
        """Write a warning."""
        self._write(f"Warning: {printable(sentence)}")

    def show(self, status: Status) -> None:
        """Write the line."""
        self._write(plain_line(status))

    def _write(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(text + "\n")
            self._stream.flush()
        except OSError:
            self._stream = None


def plain_line(status: Status) -> str:
    """Return everything in one line: time, disk space, each collector with its state, rate and drops."""
    clock = time.strftime("%H:%M:%S", time.gmtime())
    room = f"{status.room.free_bytes / 1e9:.1f} GB free" if status.room else ""
    parts = [f"{clock}Z {status.elapsed_s:.0f} s", room, *map(_line, status.lines), status.message]
    return " | ".join(part for part in parts if part)


def _line(line: Line) -> str:
    dropped = f" dropped {line.dropped}" if line.dropped else ""
    restarts = f" restarts {line.restarts}" if line.restarts else ""
    why = f" ({line.last})" if line.state in ("no values", "waiting") and line.last else ""
    return f"{line.name} {line.state}{why} {line.bytes_per_s / 1e3:.1f} kB/s{dropped}{restarts}"
