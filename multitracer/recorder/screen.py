"""The live view on a terminal: collectors, sparklines, disk space, markers."""

from __future__ import annotations

import math
import os
import sys
import termios
import time
import tty
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from multitracer.words import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType
    from typing import Self

    from rich.console import RenderableType

    from multitracer.recorder.status import CollectorState, RecordingStatus

_BARS = "▁▂▃▄▅▆▇█"
_STYLES = {
    "recording": "green",
    "no values": "yellow",
    "silent": "yellow",
    "waiting": "red",
    "starting": "cyan",
    "ended": "dim",
}
_LONGEST_LAST = 48
_ENTER, _ESCAPE, _ERASE, _MARK = "\r\n", "\x1b", "\x7f\b", "mM"


class ScreenView:
    """The live view; the key `m` begins a marker, Enter saves it, Escape discards it.

    Parameters
    ----------
    title : str
        The session's name.
    log : callable
        Called with each warning, which stays visible here and belongs into the log of the command, too.
    """

    def __init__(self, title: str, log: Callable[[str], object]) -> None:
        self._title = title
        self._log = log
        self._console = Console(stderr=True)
        self._live = Live(console=self._console, auto_refresh=False, transient=False)
        self._status: RecordingStatus | None = None
        self._note: str | None = None
        self._saved: list[object] | None = None

    def __enter__(self) -> Self:
        if sys.stdin.isatty():
            self._saved = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._live.stop()
            if self._saved is not None:
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._saved)  # type: ignore[arg-type]
        except OSError:
            pass  # the terminal is gone; there is nothing to restore

    @property
    def source(self) -> int | None:
        """Standard input, while it is a terminal."""
        return sys.stdin.fileno() if self._saved is not None else None

    def typed(self) -> str | None:
        """Read keys; return the note of a marker when it is complete."""
        try:
            keys = os.read(sys.stdin.fileno(), 256).decode("utf-8", "replace")
        except OSError:
            keys = ""
        if not keys:
            self._saved = None
            return None
        done = None
        for key in keys:
            done = self._key(key) or done
        if self._status is not None:
            self.show(self._status)
        return done

    def _key(self, key: str) -> str | None:
        if self._note is None:
            self._note = "" if key in _MARK else None
            return None
        if key in _ENTER:
            note, self._note = self._note.strip() or "(no note)", None
            return note
        if key == _ESCAPE:
            self._note = None
        elif key in _ERASE:
            self._note = self._note[:-1]
        elif key.isprintable():
            self._note += key
        return None

    def warn(self, sentence: str) -> None:
        """Write a warning above the view, where it stays visible."""
        self._log(sentence)
        try:
            self._console.print(Text(f"Warning: {printable(sentence)}"))
        except OSError:
            self._saved = None

    def show(self, status: RecordingStatus) -> None:
        """Redraw the complete view."""
        self._status = status
        try:
            self._live.update(self._page(status), refresh=True)
        except OSError:
            self._saved = None  # a closed terminal: the recording goes on

    def _page(self, status: RecordingStatus) -> RenderableType:
        return Group(self._head(status), _collectors(status.lines), _series(status), self._foot(status))

    def _head(self, status: RecordingStatus) -> Text:
        minutes, seconds = divmod(int(status.elapsed_s), 60)
        head = Text(f"{self._title}  {minutes}:{seconds:02d}", style="bold")
        if status.room is not None:
            lasts = "" if status.room.lasts_s is None else f", enough for {_long(status.room.lasts_s)}"
            style = "red bold" if status.room.is_short else "default"
            head.append(f"   {status.room.free_bytes / 1e9:.1f} GB free{lasts}", style=style)
        head.append(f"   {status.sync_probes} sync probes, {status.markers} markers", style="default")
        return head

    def _foot(self, status: RecordingStatus) -> Text:
        if self._note is not None:
            return Text(f"Marker: {self._note}▏  (Enter saves, Escape cancels)", style="reverse")
        foot = Text("m sets a marker with a note · Ctrl-C ends the recording", style="dim")
        return Text(status.message, style="red bold").append("  ").append(foot) if status.message else foot


def _restarted(times: int) -> str:
    return "restarted once" if times == 1 else f"restarted {times:,} times"


def _collectors(lines: Iterable[CollectorState]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("collector", "state", "rate", "bytes", "drops", "last"):
        side = "right" if name in ("rate", "bytes", "drops") else "left"
        table.add_column(name, justify=side, no_wrap=True, overflow="ellipsis")  # type: ignore[arg-type]
    for line in lines:
        state = line.state + (f" ({_restarted(line.restarts)})" if line.restarts else "")
        table.add_row(
            line.name,
            Text(state, style=_STYLES.get(line.state, "default")),
            f"{line.records_per_s:.0f}/s",
            f"{line.bytes / 1e6:.2f} MB",
            str(line.dropped),
            Text(line.last[:_LONGEST_LAST]),
        )
    return table


def _series(status: RecordingStatus) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for label, values in status.series.items():
        newest = "–" if math.isnan(values[-1]) else f"{values[-1]:,.1f}"
        table.add_row(label, Text(newest, justify="right"), sparkline(values))
    return table


def sparkline(values: Iterable[float], *, width: int = 48) -> str:
    """Return the last `width` values as text bars between their minimum and maximum; NaN is a blank.

    If all values are equal, they have the lowest bar.
    """
    shown = list(values)[-width:]
    known = [value for value in shown if not math.isnan(value)]
    minimum, largest = min(known, default=0.0), max(known, default=0.0)
    steps = (largest - minimum) or 1.0
    highest = len(_BARS) - 1
    return "".join(" " if math.isnan(v) else _BARS[int((v - minimum) / steps * highest)] for v in shown)


def _long(seconds: float) -> str:
    if seconds >= 48 * 3600:
        return f"{seconds / 86400:.0f} days"
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"


# One line a second, for logs and ssh.


class PlainView:
    """Writes one line a second.

    Parameters
    ----------
    tell : callable
        Called with each warning.
    write : callable, optional
        Called with each line; None: no lines.

    If one of them fails (a closed terminal), the recording continues without lines.
    """

    def __init__(self, tell: Callable[[str], object], write: Callable[[str], object] | None = None) -> None:
        self._tell = tell
        self._write = write

    @property
    def source(self) -> int | None:
        """Return None: this view reads no keys."""
        return None

    def typed(self) -> str | None:
        """Return None: this view reads no keys."""
        return None

    def warn(self, sentence: str) -> None:
        """Write a warning."""
        try:
            self._tell(sentence)
        except OSError:
            self._write = None

    def show(self, status: RecordingStatus) -> None:
        """Write the line."""
        if self._write is None:
            return
        try:
            self._write(plain_line(status))
        except OSError:
            self._write = None


def plain_line(status: RecordingStatus) -> str:
    """Return the status as one line: time, disk space, and state, rate and drops of each collector."""
    clock = time.strftime("%H:%M:%S", time.gmtime())
    room = f"{status.room.free_bytes / 1e9:.1f} GB free" if status.room else ""
    parts = [f"{clock}Z {status.elapsed_s:.0f} s", room, *map(_line, status.lines), status.message]
    return " | ".join(part for part in parts if part)


def _line(line: CollectorState) -> str:
    dropped = f" dropped {line.dropped}" if line.dropped else ""
    restarts = f" {_restarted(line.restarts)}" if line.restarts else ""
    why = f" ({line.last})" if line.state in ("no values", "waiting") and line.last else ""
    return f"{line.name} {line.state}{why} {line.bytes_per_s / 1e3:.1f} kB/s{dropped}{restarts}"
